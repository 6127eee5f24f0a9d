
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

/* quic_retry */
#define NGX_QUIC_RETRY_OFF                   0
#define NGX_QUIC_RETRY_ON                    1
#define NGX_QUIC_RETRY_AUTO                  2


/* quic_path */
#define NGX_QUIC_PATH_USE                    0
#define NGX_QUIC_PATH_STANDBY                1
#define NGX_QUIC_PATH_REFUSE                 2


/* what a path from these addresses may be used for */
typedef struct {
    ngx_cidr_t                     cidr;
    ngx_uint_t                     use;   /* NGX_QUIC_PATH_... */
    ngx_uint_t                     all;   /* unsigned  all:1; */
} ngx_quic_path_rule_t;


typedef ngx_int_t (*ngx_quic_init_pt)(ngx_connection_t *c);
typedef void (*ngx_quic_shutdown_pt)(ngx_connection_t *c);


typedef struct {
    ngx_ssl_t                     *ssl;

    ngx_uint_t                     retry;
    ngx_flag_t                     gso_enabled;
    ngx_flag_t                     disable_active_migration;
    ngx_msec_t                     handshake_timeout;
    ngx_msec_t                     idle_timeout;
    ngx_str_t                      host_key;
    size_t                         stream_buffer_size;
    size_t                         receive_window;  /* of a stream */
    size_t                         send_buffer;     /* of a connection, or 0 */
    ngx_uint_t                     max_concurrent_streams_bidi;
    ngx_uint_t                     max_concurrent_streams_uni;
    ngx_uint_t                     active_connection_id_limit;
    ngx_int_t                      stream_close_code;
    ngx_int_t                      stream_reject_code_uni;
    ngx_int_t                      stream_reject_code_bidi;

    ngx_flag_t                     multipath;
    ngx_uint_t                     max_paths;
    ngx_array_t                   *path_rules;  /* of ngx_quic_path_rule_t */
    ngx_str_t                      congestion_control;   /* ends with '\0' */
    ngx_str_t                      scheduler;            /* ends with '\0' */
    ngx_flag_t                     ack_detours;
    ngx_flag_t                     ack_frequency;
    ngx_flag_t                     ecn;
    size_t                         send_budget;          /* of a worker, or 0 */

    ngx_quic_init_pt               init;
    ngx_quic_shutdown_pt           shutdown;

    ngx_uint_t                     random_host_key;  /* unsigned :1; */
    u_char                         av_token_key[NGX_QUIC_AV_KEY_LEN];
    u_char                         sr_token_key[NGX_QUIC_SR_KEY_LEN];

    time_t                         careful_resume;  /* 0: off */

    void                          *transport;  /* quiche_config, made on use */
    void                          *keeper;     /* of tokens, made on use */
} ngx_quic_conf_t;


/*
 * What a client's request says of its playback (CTA-5004), -1 where it says
 * nothing; the same as in tools/nginx/staticlib/cmcd.rs.
 */
typedef struct {
    int64_t                        buffer_ms;        /* bl */
    int64_t                        bitrate_kbps;     /* br */
    int64_t                        deadline_ms;      /* dl */
    int64_t                        throughput_kbps;  /* mtp */
    int                            startup;          /* su */
    int                            starved;          /* bs */
} ngx_quic_playback_t;

/* one that ran dry and has something again goes on */
#define ngx_quic_is_stalled(p)                                                \
    ((p)->startup || ((p)->starved && (p)->buffer_ms <= 0))


struct ngx_quic_stream_s {
    ngx_rbtree_node_t              node;
    ngx_queue_t                    queue;
    ngx_connection_t              *parent;
    ngx_queue_t                    blocked;      /* in one of the connection */
    ngx_connection_t              *connection;   /* NULL once nginx closed it */
    uint64_t                       id;
    ngx_buf_t                     *buffer;       /* of our unidirectional ones */
    ngx_quic_playback_t           *playback;     /* NULL: nothing was said */
    unsigned                       cancelable:1;
    unsigned                       recv_fin:1;   /* the FIN was read */
    unsigned                       recv_reset:1;
    unsigned                       send_fin:1;   /* the FIN was written */
    unsigned                       send_reset:1;
    unsigned                       is_blocked:1; /* by stream_buffer_size */
    unsigned                       is_buffered:1; /* not given to quiche yet */
};


/* blocks of pools; of tools/nginx/staticlib/cache.rs */
void *ngx_quic_alloc_block(size_t size);
void ngx_quic_free_block(void *p, size_t size);

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

/*
 * Adds what a header field's value says, or the argument CMCD of a query;
 * returns whether anything was understood. At any length, and whatever it has.
 */
int ngx_quic_read_cmcd(ngx_quic_playback_t *playback, const u_char *text,
    size_t len, int is_query);
/* for the scheduler: of a request's stream, which is to be answered */
void ngx_quic_report_playback(ngx_connection_t *c,
    ngx_quic_playback_t *playback);
void ngx_quic_announce_length(ngx_connection_t *c, off_t length);

struct ngx_listening_s;

/* the settings of the server that a datagram to this address reaches, or NULL */
typedef ngx_quic_conf_t *(*ngx_quic_find_conf_pt)(
    struct ngx_listening_s *ls, struct sockaddr *local);

extern ngx_quic_find_conf_pt  ngx_quic_find_conf;

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

/* whether quic_careful_resume works with it; the name ends with '\0' */
ngx_uint_t ngx_quic_check_careful_resume(ngx_str_t *congestion_control);

/* what a status page shows; text ends with '\0', and nothing is a pointer: each
 * worker has it in a file of its own, which others read */

#define NGX_QUIC_STATUS_PATHS        8
#define NGX_QUIC_STATUS_CONNECTIONS  128
#define NGX_QUIC_STATUS_WHY          160

#define NGX_QUIC_STATUS_AVAILABLE    0
#define NGX_QUIC_STATUS_BACKUP       1

#define NGX_QUIC_HEALTH_HEALTHY      0
#define NGX_QUIC_HEALTH_SUSPECT      1
#define NGX_QUIC_HEALTH_FAILED       2
#define NGX_QUIC_HEALTH_RECOVERING   3

typedef struct {
    uint64_t                       id;
    uint64_t                       sent;         /* octets */
    uint64_t                       received;     /* octets */
    uint64_t                       lost;         /* octets */
    uint64_t                       rtt;          /* microseconds */
    uint64_t                       window;       /* octets */
    uint64_t                       bottleneck;   /* least ID, or UINT64_MAX */
    uint32_t                       status;       /* NGX_QUIC_STATUS_... */
    uint32_t                       our_status;   /* the same, by quic_path */
    uint32_t                       health;       /* NGX_QUIC_HEALTH_... */
    u_char                         local[NGX_SOCKADDR_STRLEN + 1];
    u_char                         peer[NGX_SOCKADDR_STRLEN + 1];
} ngx_quic_path_info_t;

typedef struct {
    ngx_atomic_uint_t              number;
    ngx_msec_t                     age;
    ngx_uint_t                     multipath;    /* unsigned  multipath:1; */
    u_char                         congestion_control[256];
    u_char                         scheduler[32];
    u_char                         why_one_path[NGX_QUIC_STATUS_WHY];
    uint64_t                       nreports;     /* of playback */
    ngx_msec_t                     playback_age; /* of the last one */
    ngx_quic_playback_t            playback;
    ngx_uint_t                     npaths;
    ngx_quic_path_info_t           paths[NGX_QUIC_STATUS_PATHS];
} ngx_quic_info_t;

/* glibc tells what is in use of its heap, that of Rust and TLS included */
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 33)
#define NGX_QUIC_HEAP                1
#endif
#endif

/* counters since the worker's start, but for those of what there is now */
#define NGX_QUIC_STATUS_VERSION      6

typedef struct {
    uint32_t                       version;      /* NGX_QUIC_STATUS_VERSION */
    uint32_t                       size;         /* of all this */
    ngx_pid_t                      pid;
    ngx_uint_t                     worker;
    uint64_t                       generation;   /* of the configuration */
    uint64_t                       draining;     /* 1 if it is about to exit */
    uint64_t                       connections;  /* now */
    uint64_t                       multipath;    /* now */
    uint64_t                       paths;        /* now */
    uint64_t                       paths_refused;
    uint64_t                       accepted;
    uint64_t                       established;
    uint64_t                       retries;
    uint64_t                       resets;
    uint64_t                       handed_over;
    uint64_t                       handover_received;
    uint64_t                       handover_dropped;
    uint64_t                       dropped;
    uint64_t                       blocked;
    uint64_t                       send_budget;  /* octets, or 0 */
    uint64_t                       send_held;    /* octets, now */
    uint64_t                       send_holders; /* now */
    uint64_t                       heap;         /* octets in use, now */
    uint64_t                       qoe_reports;
    uint64_t                       deadlines;
    uint64_t                       resume_tokens;
    uint64_t                       resumed;      /* paths, as the next three */
    uint64_t                       resume_unknown;
    uint64_t                       resume_expired;
    uint64_t                       resume_used;
    uint64_t                       resume_garbage;   /* tokens */
    uint64_t                       sent[NGX_QUIC_STATUS_PATHS];      /* octets */
    uint64_t                       received[NGX_QUIC_STATUS_PATHS];  /* octets */
    ngx_uint_t                     nconnections; /* of the list */
    ngx_quic_info_t                list[NGX_QUIC_STATUS_CONNECTIONS];
} ngx_quic_status_t;

/* what ngx_quic_get_status() has read */
typedef struct {
    ngx_quic_status_t             *status;       /* but for the list */
    ngx_quic_info_t               *list;
    ngx_uint_t                     nlist;
} ngx_quic_worker_status_t;

/* the paths of a connection or a stream's connection; the number of them */
ngx_uint_t ngx_quic_get_paths(ngx_connection_t *c, ngx_quic_path_info_t *paths,
    ngx_uint_t max);
ngx_quic_conf_t *ngx_quic_get_conf(ngx_connection_t *c);
ngx_uint_t ngx_quic_is_multipath(ngx_connection_t *c);

/* asks for the tables to be kept up to date: while reading the configuration */
void ngx_quic_enable_status(void);

/*
 * The tables of all workers, draining ones and those of other binaries included,
 * by worker and then by age; without the lists of connections, or with what there
 * is of each. NULL if there is no memory.
 */
ngx_array_t *ngx_quic_get_status(ngx_pool_t *pool, ngx_uint_t lists);

#endif /* _NGX_EVENT_QUIC_H_INCLUDED_ */
