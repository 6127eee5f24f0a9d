
/*
 * Copyright (C) 2026, the mpq authors
 *
 * What the files of the adapter share. nginx's HTTP/3 sees ngx_event_quic.h
 * only.
 *
 *   ngx_event_quic.c          a connection's life: run, events, close
 *   ngx_event_quic_udp.c      datagrams in: sockets, dispatch, accept
 *   ngx_event_quic_packet.c   datagrams that belong to no connection
 *   ngx_event_quic_output.c   datagrams out: batches, GSO, what must wait
 *   ngx_event_quic_streams.c  streams as nginx connections
 *   ngx_event_quic_connid.c   connection IDs: layout, table, supply
 *   ngx_event_quic_workers.c  datagrams that reached the wrong worker
 *   ngx_event_quic_tokens.c   address validation and reset tokens, keys
 *   ngx_event_quic_conf.c     quiche's configuration from nginx's
 *   ngx_event_quic_bpf.c      the kernel picks the worker
 *   ngx_event_quic_status.c   what is going on, for logs and status pages
 */


#ifndef _NGX_EVENT_QUIC_CONNECTION_H_INCLUDED_
#define _NGX_EVENT_QUIC_CONNECTION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <quiche.h>


#define NGX_QUIC_MAX_CID_LEN             QUICHE_MAX_CONN_ID_LEN
#define NGX_QUIC_MIN_INITIAL_DCID_LEN    8

/*
 * Connection IDs that we issue:
 *
 *   octets  0      1..4        5..6     7..10     11..19
 *           first  server ID   worker   process   random
 *
 * - first and server ID are those of QUIC-LB (draft-ietf-quic-load-balancers):
 *   the configuration's number in the upper three bits of the first octet and
 *   the plaintext server ID, or "unroutable" (0b111) and random octets.
 * - worker is the worker's number, by which the eBPF program finds the socket.
 * - process tells workers of the same number apart: those before and after a
 *   reload or an upgrade, for instance.
 */
#define NGX_QUIC_CID_LEN                 20
#define NGX_QUIC_CID_SERVER              1
#define NGX_QUIC_CID_SERVER_LEN          4
#define NGX_QUIC_CID_WORKER              5
#define NGX_QUIC_CID_PROCESS             7

#define NGX_QUIC_LB_UNROUTABLE           0xe0

#define NGX_QUIC_MAX_TOKEN_SIZE          64
/* IV, SHA-1 of the address, expiry, kind, length and original DCID, tag */
#define NGX_QUIC_TOKEN_BUF_SIZE          (12 + NGX_QUIC_MAX_TOKEN_SIZE + 16)

/* quiche's packet types */
#define NGX_QUIC_PKT_INITIAL             1
#define NGX_QUIC_PKT_RETRY               2
#define NGX_QUIC_PKT_HANDSHAKE           3
#define NGX_QUIC_PKT_ZRTT                4
#define NGX_QUIC_PKT_SHORT               5
#define NGX_QUIC_PKT_NEGOTIATION         6

#define NGX_QUIC_ERR_NO_ERROR            0x00
#define NGX_QUIC_ERR_INTERNAL_ERROR      0x01
#define NGX_QUIC_ERR_CONNECTION_REFUSED  0x02
#define NGX_QUIC_ERR_INVALID_TOKEN       0x0b

#define ngx_quic_long_pkt(first)         ((first) & 0x80)


typedef struct ngx_quic_connection_s  ngx_quic_connection_t;
typedef struct ngx_quic_pending_s     ngx_quic_pending_t;


/* of the whole process */
typedef struct {
    u_char                        server_id[NGX_QUIC_CID_SERVER_LEN];
    ngx_uint_t                    has_server_id;  /* unsigned :1; */
} ngx_quic_main_conf_t;


/* a received UDP datagram */
typedef struct {
    u_char                       *data;
    size_t                        len;
    ngx_sockaddr_t                from;
    socklen_t                     from_len;
    ngx_sockaddr_t                to;
    socklen_t                     to_len;
} ngx_quic_datagram_t;


/* the invariant fields of a packet (RFC 8999), and an Initial's token */
typedef struct {
    uint32_t                      version;
    ngx_uint_t                    type;
    u_char                        dcid[NGX_QUIC_MAX_CID_LEN];
    size_t                        dcid_len;
    u_char                        scid[NGX_QUIC_MAX_CID_LEN];
    size_t                        scid_len;
    ngx_str_t                     token;

    /* from the token */
    u_char                        odcid[NGX_QUIC_MAX_CID_LEN];
    size_t                        odcid_len;
    unsigned                      validated:1;
    unsigned                      retried:1;
} ngx_quic_header_t;


/* a connection ID that leads to a connection of this worker */
typedef struct {
    ngx_rbtree_node_t             node;
    ngx_queue_t                   queue;       /* of the connection, or free */
    ngx_connection_t             *connection;
    u_char                        len;
    u_char                        id[NGX_QUIC_MAX_CID_LEN];
} ngx_quic_cid_t;


struct ngx_quic_connection_s {
    ngx_udp_connection_t          udp;         /* what c->udp points to */
    ngx_queue_t                   queue;       /* of the worker */

    quiche_conn                  *conn;
    ngx_quic_conf_t              *conf;

    ngx_queue_t                   cids;        /* of ngx_quic_cid_t */
    ngx_quic_cid_t               *initial;     /* the client's first choice */

    ngx_rbtree_t                  streams;
    ngx_rbtree_node_t             sentinel;
    ngx_queue_t                   uninitialized;
    ngx_queue_t                   closed;      /* closed by nginx, not yet sent */
    ngx_queue_t                   free_streams;
    ngx_queue_t                   blocked;     /* with full buffers */
    ngx_uint_t                    nactive;     /* not cancelable, not closed */
    uint64_t                      client_bidi; /* the next IDs, by kind, as */
    uint64_t                      client_uni;  /* counted by RFC 9000, 2.1 */
    uint64_t                      server_bidi;
    uint64_t                      server_uni;

    ngx_event_t                   update;      /* posted after input */
    ngx_event_t                   push;        /* posted to flush output */
    ngx_event_t                   timer;       /* quiche's */
    ngx_event_t                   close;       /* handshake timeout; finalize */

    ngx_quic_pending_t           *pending;     /* datagrams the kernel refused */

    ngx_uint_t                    error;
    const char                   *error_reason;
    ngx_uint_t                    shutdown_code;
    const char                   *shutdown_reason;

    unsigned                      error_app:1;
    unsigned                      initializing:1;
    unsigned                      initialized:1;
    unsigned                      established:1;
    unsigned                      shutdown:1;
    unsigned                      closing:1;   /* no streams any more */
    unsigned                      abort:1;     /* no waiting for stray packets */
};


#define ngx_quic_get_connection(c)                                            \
    ((ngx_quic_connection_t *) (c)->udp)


/* ngx_event_quic.c */
void ngx_quic_input(ngx_connection_t *c, ngx_quic_datagram_t *dgram);
void ngx_quic_close_connection(ngx_connection_t *c, ngx_int_t rc);
void ngx_quic_post_push(ngx_quic_connection_t *qc);
void ngx_quic_shutdown_quic(ngx_connection_t *c);

/* ngx_event_quic_udp.c */
ngx_int_t ngx_quic_init_listeners(ngx_cycle_t *cycle);
ngx_listening_t *ngx_quic_find_listening(struct sockaddr *local,
    socklen_t len);
void ngx_quic_dispatch(ngx_listening_t *ls, ngx_quic_datagram_t *dgram,
    ngx_uint_t handed_over);

/* ngx_event_quic_packet.c */
ngx_int_t ngx_quic_parse_header(ngx_quic_datagram_t *dgram,
    ngx_quic_header_t *pkt);
ngx_int_t ngx_quic_admit(ngx_connection_t *c, ngx_quic_conf_t *conf,
    ngx_quic_header_t *pkt, size_t size);

/* ngx_event_quic_output.c */
void ngx_quic_output(ngx_connection_t *c);
void ngx_quic_free_pending(ngx_quic_connection_t *qc);
ngx_int_t ngx_quic_send_datagram(ngx_connection_t *c, u_char *data, size_t len);

/* ngx_event_quic_streams.c */
void ngx_quic_rbtree_insert_stream(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel);
ngx_int_t ngx_quic_init_streams(ngx_connection_t *c);
void ngx_quic_update_streams(ngx_connection_t *c);
void ngx_quic_wake_streams(ngx_quic_connection_t *qc);
ngx_int_t ngx_quic_close_streams(ngx_connection_t *c);
ngx_int_t ngx_quic_streams_done(ngx_quic_connection_t *qc);

/* ngx_event_quic_connid.c */
ngx_int_t ngx_quic_init_cids(ngx_cycle_t *cycle);
ngx_connection_t *ngx_quic_find_connection(u_char *id, size_t len);
ngx_int_t ngx_quic_new_cid(ngx_log_t *log, u_char *id);
ngx_int_t ngx_quic_listen(ngx_connection_t *c, u_char *id, size_t len,
    ngx_quic_cid_t **cid);
void ngx_quic_supply_cids(ngx_connection_t *c);
void ngx_quic_retire_cids(ngx_connection_t *c);
void ngx_quic_forget_initial_cid(ngx_connection_t *c);
void ngx_quic_close_cids(ngx_connection_t *c);

/* ngx_event_quic_workers.c */
extern uint32_t  ngx_quic_process;

ngx_int_t ngx_quic_init_workers_module(ngx_cycle_t *cycle);
ngx_int_t ngx_quic_init_workers(ngx_cycle_t *cycle);
ngx_int_t ngx_quic_hand_over(ngx_quic_datagram_t *dgram, u_char *cid,
    ngx_log_t *log);
ngx_int_t ngx_quic_hand_over_to_successor(ngx_quic_datagram_t *dgram,
    ngx_log_t *log);

/* ngx_event_quic_status.c */
extern ngx_quic_status_t  *ngx_quic_status;      /* of this worker */

ngx_int_t ngx_quic_init_status_module(ngx_cycle_t *cycle);
ngx_int_t ngx_quic_init_status(ngx_cycle_t *cycle);
void ngx_quic_status_open(ngx_connection_t *c);
void ngx_quic_status_close(ngx_connection_t *c);

/* ngx_event_quic_tokens.c */
ngx_int_t ngx_quic_new_sr_token(ngx_log_t *log, u_char *id, size_t len,
    u_char *secret, u_char *token);
ngx_int_t ngx_quic_new_token(ngx_log_t *log, struct sockaddr *sockaddr,
    socklen_t socklen, u_char *key, ngx_str_t *token, u_char *odcid,
    size_t odcid_len, time_t expires, ngx_uint_t is_retry);
ngx_int_t ngx_quic_send_new_token(ngx_connection_t *c,
    struct sockaddr *sockaddr, socklen_t socklen);
ngx_int_t ngx_quic_validate_token(ngx_connection_t *c, u_char *key,
    ngx_quic_header_t *pkt);
void ngx_quic_address_hash(struct sockaddr *sockaddr, socklen_t socklen,
    ngx_uint_t no_port, u_char *salt, size_t saltlen, u_char *hash);

/* ngx_event_quic_conf.c */
quiche_config *ngx_quic_transport_config(ngx_quic_conf_t *conf,
    ngx_log_t *log);
size_t ngx_quic_early_data_context(ngx_quic_conf_t *conf, u_char *out,
    size_t len);


#endif /* _NGX_EVENT_QUIC_CONNECTION_H_INCLUDED_ */
