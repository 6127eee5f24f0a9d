
/*
 * Copyright (C) Nginx, Inc.
 * Copyright (C) 2026, the mpq authors
 *
 * The interface that nginx's HTTP/3 and event code know, as in nginx 1.28.3,
 * without what was private to its own transport; and the settings of multipath.
 */


#ifndef _NGX_EVENT_QUIC_H_INCLUDED_
#define _NGX_EVENT_QUIC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_QUIC_MAX_UDP_PAYLOAD_SIZE        65527

#define NGX_QUIC_DEFAULT_ACK_DELAY_EXPONENT  3
#define NGX_QUIC_DEFAULT_MAX_ACK_DELAY       25
#define NGX_QUIC_DEFAULT_HOST_KEY_LEN        32
#define NGX_QUIC_SR_KEY_LEN                  32
#define NGX_QUIC_AV_KEY_LEN                  32

#define NGX_QUIC_SR_TOKEN_LEN                16

#define NGX_QUIC_MIN_INITIAL_SIZE            1200

#define NGX_QUIC_STREAM_SERVER_INITIATED     0x01
#define NGX_QUIC_STREAM_UNIDIRECTIONAL       0x02

#define NGX_QUIC_MAX_PATHS                   64


typedef ngx_int_t (*ngx_quic_init_pt)(ngx_connection_t *c);
typedef void (*ngx_quic_shutdown_pt)(ngx_connection_t *c);


typedef struct {
    ngx_ssl_t                     *ssl;

    ngx_flag_t                     retry;
    ngx_flag_t                     gso_enabled;
    ngx_flag_t                     disable_active_migration;
    ngx_msec_t                     handshake_timeout;
    ngx_msec_t                     idle_timeout;
    ngx_str_t                      host_key;
    size_t                         stream_buffer_size;
    ngx_uint_t                     max_concurrent_streams_bidi;
    ngx_uint_t                     max_concurrent_streams_uni;
    ngx_uint_t                     active_connection_id_limit;
    ngx_int_t                      stream_close_code;
    ngx_int_t                      stream_reject_code_uni;
    ngx_int_t                      stream_reject_code_bidi;

    ngx_flag_t                     multipath;
    ngx_uint_t                     max_paths;
    ngx_str_t                      congestion_control;   /* ends with '\0' */
    ngx_str_t                      scheduler;            /* ends with '\0' */

    ngx_quic_init_pt               init;
    ngx_quic_shutdown_pt           shutdown;

    u_char                         av_token_key[NGX_QUIC_AV_KEY_LEN];
    u_char                         sr_token_key[NGX_QUIC_SR_KEY_LEN];

    void                          *transport;  /* quiche_config, made on use */
} ngx_quic_conf_t;


struct ngx_quic_stream_s {
    ngx_rbtree_node_t              node;
    ngx_queue_t                    queue;
    ngx_connection_t              *parent;
    ngx_queue_t                    blocked;      /* in the connection's queue */
    ngx_connection_t              *connection;   /* NULL once nginx closed it */
    uint64_t                       id;
    ngx_buf_t                     *buffer;       /* of our unidirectional ones */
    unsigned                       cancelable:1;
    unsigned                       recv_fin:1;   /* the FIN was read */
    unsigned                       recv_reset:1;
    unsigned                       send_fin:1;   /* the FIN was written */
    unsigned                       send_reset:1;
    unsigned                       is_blocked:1; /* by stream_buffer_size */
};


void ngx_quic_recvmsg(ngx_event_t *ev);
void ngx_quic_run(ngx_connection_t *c, ngx_quic_conf_t *conf);
ngx_connection_t *ngx_quic_open_stream(ngx_connection_t *c, ngx_uint_t bidi);
void ngx_quic_finalize_connection(ngx_connection_t *c, ngx_uint_t err,
    const char *reason);
void ngx_quic_shutdown_connection(ngx_connection_t *c, ngx_uint_t err,
    const char *reason);
ngx_int_t ngx_quic_reset_stream(ngx_connection_t *c, ngx_uint_t err);
ngx_int_t ngx_quic_shutdown_stream(ngx_connection_t *c, int how);
void ngx_quic_cancelable_stream(ngx_connection_t *c);
ngx_int_t ngx_quic_derive_key(ngx_log_t *log, const char *label,
    ngx_str_t *secret, ngx_str_t *salt, u_char *out, size_t len);

/* called by a module that comes after the event modules */
ngx_int_t ngx_quic_init_process(ngx_cycle_t *cycle);
void ngx_quic_exit_process(ngx_cycle_t *cycle);

/*
 * Whether quic_congestion_control, quic_scheduler accept a name, which ends with
 * '\0'. If not, the reason ends with '\0' and tells what would be accepted.
 */
ngx_int_t ngx_quic_check_congestion_control(ngx_str_t *name, u_char *reason,
    size_t size);
ngx_int_t ngx_quic_check_scheduler(ngx_str_t *name, u_char *reason,
    size_t size);

/* what a status page shows; text ends with '\0' */

#define NGX_QUIC_STATUS_PATHS        8
#define NGX_QUIC_STATUS_CONNECTIONS  128

typedef struct {
    uint64_t                       id;
    uint64_t                       sent;         /* octets */
    uint64_t                       received;     /* octets */
    uint64_t                       lost;         /* octets */
    uint64_t                       rtt;          /* microseconds */
    uint64_t                       window;       /* octets */
    const char                    *status;
    const char                    *health;
    u_char                         local[NGX_SOCKADDR_STRLEN + 1];
    u_char                         peer[NGX_SOCKADDR_STRLEN + 1];
} ngx_quic_path_info_t;

typedef struct {
    ngx_atomic_uint_t              number;
    ngx_msec_t                     age;
    ngx_uint_t                     multipath;    /* unsigned  multipath:1; */
    u_char                         congestion_control[256];
    u_char                         scheduler[32];
    ngx_uint_t                     npaths;
    ngx_quic_path_info_t           paths[NGX_QUIC_STATUS_PATHS];
} ngx_quic_info_t;

/* counters since the worker's start, but for those of what there is now */
typedef struct {
    uint32_t                       generation;
    ngx_pid_t                      pid;
    ngx_msec_t                     updated;
    uint64_t                       connections;  /* now */
    uint64_t                       multipath;    /* now */
    uint64_t                       paths;        /* now */
    uint64_t                       accepted;
    uint64_t                       established;
    uint64_t                       retries;
    uint64_t                       resets;
    uint64_t                       handed_over;
    uint64_t                       blocked;
    uint64_t                       sent[NGX_QUIC_STATUS_PATHS];      /* octets */
    uint64_t                       received[NGX_QUIC_STATUS_PATHS];  /* octets */
    ngx_uint_t                     nconnections;
    ngx_quic_info_t                list[NGX_QUIC_STATUS_CONNECTIONS];
} ngx_quic_status_t;

/* the paths of a connection or a stream's connection; the number of them */
ngx_uint_t ngx_quic_get_paths(ngx_connection_t *c, ngx_quic_path_info_t *paths,
    ngx_uint_t max);
ngx_quic_conf_t *ngx_quic_get_conf(ngx_connection_t *c);
ngx_uint_t ngx_quic_is_multipath(ngx_connection_t *c);

/* asks for the tables to be kept up to date: while reading the configuration */
void ngx_quic_enable_status(void);

/* the worker's table, or NULL; this worker's is brought up to date */
ngx_quic_status_t *ngx_quic_get_status(ngx_uint_t worker);

#endif /* _NGX_EVENT_QUIC_H_INCLUDED_ */
