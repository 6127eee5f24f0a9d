
/*
 * Copyright (C) 2026, the mpq authors
 *
 * What the files of the adapter share. nginx's HTTP/3 sees ngx_event_quic.h
 * only.
 *
 *   ngx_event_quic_module.c    the process: directives, beginning
 *   ngx_event_quic.c           a connection's life: run, events, close
 *   ngx_event_quic_paths.c     its paths, and the client's address
 *   ngx_event_quic_path_policy.c  quic_path; why there is no second path
 *   ngx_event_quic_udp.c       datagrams in: sockets, dispatch
 *   ngx_event_quic_accept.c    datagrams that may begin a connection
 *   ngx_event_quic_packet.c    datagrams that belong to no connection
 *   ngx_event_quic_output.c    datagrams out: batches, GSO, what must wait
 *   ngx_event_quic_streams.c   streams as nginx connections: begin, end
 *   ngx_event_quic_stream_io.c what nginx reads from them and writes to them
 *   ngx_event_quic_playback.c  what clients say of their playback, for the scheduler
 *   ngx_event_quic_connid.c    connection IDs: layout, table, supply
 *   ngx_event_quic_workers.c   which workers there are, whose a datagram is
 *   ngx_event_quic_handover.c  datagrams from worker to worker
 *   ngx_event_quic_tokens.c    address validation and reset tokens, keys
 *   ngx_event_quic_conf.c      quiche's configuration from nginx's
 *   ngx_event_quic_bpf.c       the kernel picks the worker
 *   ngx_event_quic_status.c    what is going on, for logs and status pages
 */


#ifndef _NGX_EVENT_QUIC_CONNECTION_H_INCLUDED_
#define _NGX_EVENT_QUIC_CONNECTION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <openssl/aes.h>
#include <quiche.h>
#include <ngx_event_quic_guard.h>


#define NGX_QUIC_MAX_CID_LEN             QUICHE_MAX_CONN_ID_LEN
#define NGX_QUIC_MIN_INITIAL_DCID_LEN    8

/*
 * Connection IDs that we issue:
 *
 *   octets  0      1..4        5..16    17..19
 *           first  server ID   nonce    route
 *
 * - the first 17 are those of QUIC-LB (draft-ietf-quic-load-balancers, Section
 *   5): the configuration's number in the upper three bits of the first octet,
 *   then server ID and nonce, encrypted in a single pass if there is a key; or
 *   "unroutable" (0b111), and all the rest random.
 * - route is what that draft lets a server append for its own use: the process,
 *   XORed with a keyed hash of the octets 1..16, so that nothing links two IDs
 *   of a connection (RFC 9000, 5.1). A process is the worker's number, by which
 *   the eBPF program finds the socket, and a random number, which tells workers
 *   of the same number apart: those before and after a reload, for instance.
 */
#define NGX_QUIC_CID_LEN                 20
#define NGX_QUIC_CID_SERVER              1
#define NGX_QUIC_CID_SERVER_LEN          4
#define NGX_QUIC_CID_BLOCK               1
#define NGX_QUIC_CID_BLOCK_LEN           16
#define NGX_QUIC_CID_ROUTE               17

#define NGX_QUIC_ROUTE_BITS              24
#define NGX_QUIC_ROUTE_MASK              0xffffff
#define NGX_QUIC_ROUTE_SHIFT             12    /* below: the random number */
#define NGX_QUIC_ROUTE_KEY_LEN           16

#define NGX_QUIC_LB_UNROUTABLE           0xe0
#define NGX_QUIC_LB_SHIFT                5
#define NGX_QUIC_LB_KEY_LEN              16

/* what fits into a socket's name, with a process in it */
#define NGX_QUIC_HANDOVER_PATH_LEN       (108 - sizeof("/012345.status"))

/* how a datagram came to this worker */
#define NGX_QUIC_HOP_NONE                0     /* from the network */
#define NGX_QUIC_HOP_OWNER               1     /* its ID leads to this worker */
#define NGX_QUIC_HOP_CLIENT              2     /* this worker is to accept it */

#define NGX_QUIC_MAX_TOKEN_SIZE          64
/* IV, SHA-1 of the address, expiry, kind, length and original DCID, tag */
#define NGX_QUIC_TOKEN_BUF_SIZE          (12 + NGX_QUIC_MAX_TOKEN_SIZE + 16)

/* without an original DCID, so it tells tokens of NEW_TOKEN and Retry apart */
#define NGX_QUIC_NEW_TOKEN_SIZE          (12 + 20 + sizeof(time_t) + 2 + 16)

/* of clients that come back; of another length than all others, too */
#define NGX_QUIC_RETURNING_TOKEN_SIZE    262

/* what comes of a path whose client has one */
#define NGX_QUIC_RESUME_NO_TOKEN         0
#define NGX_QUIC_RESUME_DONE             1
#define NGX_QUIC_RESUME_UNKNOWN          2     /* other addresses */
#define NGX_QUIC_RESUME_EXPIRED          3
#define NGX_QUIC_RESUME_USED             4

/* quiche's packet types */
#define NGX_QUIC_PKT_INITIAL             1
#define NGX_QUIC_PKT_RETRY               2
#define NGX_QUIC_PKT_HANDSHAKE           3
#define NGX_QUIC_PKT_ZRTT                4
#define NGX_QUIC_PKT_SHORT               5
#define NGX_QUIC_PKT_NEGOTIATION         6

/* quiche's validation_state: from here on the address is the client's */
#define NGX_QUIC_PATH_ADDRESS_VALIDATED  2

#define NGX_QUIC_ERR_NO_ERROR            0x00
#define NGX_QUIC_ERR_INTERNAL_ERROR      0x01
#define NGX_QUIC_ERR_CONNECTION_REFUSED  0x02
#define NGX_QUIC_ERR_INVALID_TOKEN       0x0b

#define ngx_quic_long_pkt(first)         ((first) & 0x80)


extern ngx_module_t  ngx_quic_module;


typedef struct ngx_quic_connection_s  ngx_quic_connection_t;
typedef struct ngx_quic_pending_s     ngx_quic_pending_t;


/* of the whole process */
/* why a connection has no second path */
#define NGX_QUIC_NO_PATH_NONE        0
#define NGX_QUIC_NO_PATH_REFUSED     1      /* by quic_path */
#define NGX_QUIC_NO_PATH_UNANSWERED  2      /* it was not validated */
#define NGX_QUIC_NO_PATH_ABANDONED   3      /* by the client */
#define NGX_QUIC_NO_PATH_FAILED      4      /* it worked, and then did not */

typedef struct {
    ngx_uint_t                    why;         /* NGX_QUIC_NO_PATH_... */
    uint64_t                      id;
    uint64_t                      code;        /* of PATH_ABANDON */
    u_char                        peer[NGX_SOCKADDR_STRLEN + 1];
} ngx_quic_no_path_t;


typedef struct {
    u_char                        server_id[NGX_QUIC_CID_SERVER_LEN];
    ngx_uint_t                    lb_config;      /* QUIC-LB's number of it */
    AES_KEY                       lb_key;
    unsigned                      has_server_id:1;
    unsigned                      has_lb_config:1;
    unsigned                      has_lb_key:1;

    ngx_path_t                   *handover_path;  /* NULL without QUIC */
} ngx_quic_main_conf_t;


/* a received UDP datagram */
typedef struct {
    u_char                       *data;
    size_t                        len;
    ngx_sockaddr_t                from;
    socklen_t                     from_len;
    ngx_sockaddr_t                to;
    socklen_t                     to_len;
    u_char                        ecn;         /* RFC 3168, 0 if not known */
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


/* a client's first datagram, with which a connection begins */
typedef struct {
    ngx_quic_header_t             pkt;
    ngx_quic_datagram_t          *dgram;
} ngx_quic_admission_t;


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
    ngx_quic_returning_t         *returning;   /* NULL: nothing is remembered */

    ngx_queue_t                   cids;        /* of ngx_quic_cid_t */
    ngx_quic_cid_t               *initial;     /* the client's first choice */

    ngx_rbtree_t                  streams;
    ngx_rbtree_node_t             sentinel;
    ngx_queue_t                   uninitialized;
    ngx_queue_t                   closed;      /* closed by nginx, not yet sent */
    ngx_queue_t                   free_streams;
    ngx_queue_t                   blocked;     /* with full buffers */
    ngx_queue_t                   buffered;    /* ours, with instructions */
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

    ngx_quic_no_path_t            no_path;

    ngx_quic_playback_t           playback;    /* as reported last */
    ngx_msec_t                    playback_time;
    uint64_t                      nreports;

    unsigned                      error_app:1;
    unsigned                      handshaking:1;
    unsigned                      moved:1;     /* datagrams of another address */
    unsigned                      no_gso:1;
    unsigned                      initializing:1;
    unsigned                      initialized:1;
    unsigned                      established:1;
    unsigned                      shutdown:1;
    unsigned                      leave:1;     /* to shut down a little later */
    unsigned                      closing:1;   /* no streams any more */
    unsigned                      abort:1;     /* no waiting for stray packets */
};


#define ngx_quic_get_connection(c)                                            \
    ((ngx_quic_connection_t *) (c)->udp)


/* ngx_event_quic.c */
void ngx_quic_input(ngx_connection_t *c, ngx_quic_datagram_t *dgram);
void ngx_quic_close_connection(ngx_connection_t *c, ngx_int_t rc);
void ngx_quic_post_update(ngx_quic_connection_t *qc);
void ngx_quic_post_push(ngx_quic_connection_t *qc);
void ngx_quic_shutdown_quic(ngx_connection_t *c);

/* ngx_event_quic_paths.c */
ngx_int_t ngx_quic_update_paths(ngx_connection_t *c);

/* ngx_event_quic_udp.c */
ngx_int_t ngx_quic_init_listeners(ngx_cycle_t *cycle);
ngx_listening_t *ngx_quic_find_listening(struct sockaddr *local,
    socklen_t len);
void ngx_quic_dispatch(ngx_listening_t *ls, ngx_quic_datagram_t *dgram,
    ngx_uint_t hops);
void ngx_quic_drain_listeners(void);

/* ngx_event_quic_accept.c */
void ngx_quic_accept(ngx_listening_t *ls, ngx_quic_datagram_t *dgram);
ngx_quic_admission_t *ngx_quic_get_admission(void);
void ngx_quic_handshake_begins(ngx_quic_connection_t *qc);
void ngx_quic_handshake_ends(ngx_quic_connection_t *qc);
ngx_uint_t ngx_quic_wants_retry(ngx_quic_conf_t *conf);

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
void ngx_quic_set_event(ngx_event_t *ev);
ngx_int_t ngx_quic_close_streams(ngx_connection_t *c);
ngx_int_t ngx_quic_streams_done(ngx_quic_connection_t *qc);

/* ngx_event_quic_stream_io.c */
void ngx_quic_set_stream_io(ngx_connection_t *sc);
ngx_int_t ngx_quic_flush_uni(ngx_quic_connection_t *qc, ngx_quic_stream_t *qs);
void ngx_quic_flush_unis(ngx_quic_connection_t *qc);
void ngx_quic_wake_streams(ngx_quic_connection_t *qc);

/* ngx_event_quic_connid.c */
extern u_char  ngx_quic_route_key[NGX_QUIC_ROUTE_KEY_LEN];

ngx_int_t ngx_quic_init_cids(ngx_cycle_t *cycle);
ngx_connection_t *ngx_quic_find_connection(u_char *id, size_t len);
ngx_int_t ngx_quic_new_cid(ngx_log_t *log, u_char *id);
uint32_t ngx_quic_cid_process(u_char *id);
ngx_int_t ngx_quic_listen(ngx_connection_t *c, u_char *id, size_t len,
    ngx_quic_cid_t **cid);
void ngx_quic_supply_cids(ngx_connection_t *c);
void ngx_quic_retire_cids(ngx_connection_t *c);
void ngx_quic_forget_initial_cid(ngx_connection_t *c);
void ngx_quic_close_cids(ngx_connection_t *c);

/* ngx_event_quic_workers.c */
extern uint32_t   ngx_quic_process;     /* what its connection IDs lead to */
extern uint64_t   ngx_quic_generation;  /* of the configuration, from 1 */
extern ngx_str_t  ngx_quic_handover_dir;

ngx_int_t ngx_quic_init_workers_module(ngx_cycle_t *cycle);
ngx_int_t ngx_quic_init_workers(ngx_cycle_t *cycle);
ngx_int_t ngx_quic_hand_over(ngx_quic_datagram_t *dgram, u_char *cid,
    ngx_log_t *log);
ngx_int_t ngx_quic_hand_over_client(ngx_listening_t *ls,
    ngx_quic_datagram_t *dgram, u_char *dcid, size_t len, ngx_log_t *log);
void ngx_quic_handover_name(struct sockaddr_un *sun, uint32_t process);

/* ngx_event_quic_handover.c */
void ngx_quic_init_handover(void);
void ngx_quic_handover_accept(ngx_event_t *ev);
void ngx_quic_drain_handover(ngx_connection_t *lc);
ngx_int_t ngx_quic_pass(ngx_quic_datagram_t *dgram, uint32_t process,
    ngx_uint_t hops, ngx_log_t *log);

/* ngx_event_quic_path_policy.c */
void ngx_quic_note_path(ngx_connection_t *c, quiche_path_event *ev);
void ngx_quic_judge_paths(ngx_connection_t *c);
void ngx_quic_why_one_path(ngx_connection_t *c, u_char *out, size_t size);

/* ngx_event_quic_returning.c */
ngx_int_t ngx_quic_init_returning(ngx_cycle_t *cycle);
ngx_int_t ngx_quic_validate_returning(ngx_connection_t *c,
    ngx_quic_conf_t *conf, ngx_quic_header_t *pkt);
ngx_int_t ngx_quic_create_returning(ngx_connection_t *c,
    ngx_quic_header_t *pkt);
void ngx_quic_close_returning(ngx_quic_connection_t *qc);
void ngx_quic_returning_event(ngx_connection_t *c, quiche_path_event *ev);
void ngx_quic_tell_returning(ngx_connection_t *c);

/* ngx_event_quic_status.c */
extern ngx_quic_status_t  *ngx_quic_status;      /* of this worker */

ngx_int_t ngx_quic_init_status(ngx_cycle_t *cycle);
void ngx_quic_close_status(void);
void ngx_quic_status_open(ngx_connection_t *c);
void ngx_quic_status_close(ngx_connection_t *c);
void ngx_quic_status_addr(struct sockaddr_storage *sa, socklen_t len,
    u_char *out);

/* ngx_event_quic_tokens.c */
extern u_char  ngx_quic_retry_key[NGX_QUIC_AV_KEY_LEN];

ngx_int_t ngx_quic_new_sr_token(ngx_log_t *log, u_char *id, size_t len,
    u_char *secret, u_char *token);
ngx_int_t ngx_quic_new_token(ngx_log_t *log, struct sockaddr *sockaddr,
    socklen_t socklen, ngx_quic_conf_t *conf, ngx_str_t *token, u_char *odcid,
    size_t odcid_len, time_t expires, ngx_str_t *retry_scid);
ngx_int_t ngx_quic_send_new_token(ngx_connection_t *c,
    struct sockaddr *sockaddr, socklen_t socklen);
ngx_int_t ngx_quic_validate_token(ngx_connection_t *c, ngx_quic_conf_t *conf,
    ngx_quic_header_t *pkt);
void ngx_quic_address_hash(struct sockaddr *sockaddr, socklen_t socklen,
    ngx_uint_t no_port, u_char *salt, size_t saltlen, u_char *hash);

/* ngx_event_quic_conf.c */
extern quiche_send_budget  *ngx_quic_send_budget;   /* of this worker, or NULL */

quiche_config *ngx_quic_transport_config(ngx_quic_conf_t *conf,
    ngx_log_t *log);
size_t ngx_quic_early_data_context(ngx_quic_conf_t *conf, u_char *out,
    size_t len);


#endif /* _NGX_EVENT_QUIC_CONNECTION_H_INCLUDED_ */
