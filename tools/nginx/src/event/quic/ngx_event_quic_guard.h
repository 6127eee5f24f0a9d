
/*
 * Copyright (C) 2026, the mpq authors
 *
 * Calls of quiche that work on a connection, through tools/nginx/staticlib: a
 * panic in one of them is the end of its connection, not of the worker.
 */


#ifndef _NGX_EVENT_QUIC_GUARD_H_INCLUDED_
#define _NGX_EVENT_QUIC_GUARD_H_INCLUDED_


#include <quiche.h>


/* after a panic the others fail, and is_closed() returns true */
bool ngx_quic_conn_has_panicked(quiche_conn *conn);

/* of tools/nginx/staticlib/cache.rs: freed, and in use for the C library */
size_t ngx_quic_freed_bytes(void);

ssize_t ngx_quic_guarded_conn_recv(quiche_conn *conn, uint8_t *buf, size_t len,
    const quiche_recv_info *info);
ssize_t ngx_quic_guarded_conn_send(quiche_conn *conn, uint8_t *out, size_t len,
    quiche_send_info *info);
ssize_t ngx_quic_guarded_conn_send_train(quiche_conn *conn, uint8_t *out,
    size_t len);
void ngx_quic_guarded_conn_on_timeout(quiche_conn *conn);
uint64_t ngx_quic_guarded_conn_timeout_as_nanos(const quiche_conn *conn);
bool ngx_quic_guarded_conn_is_closed(const quiche_conn *conn);
int ngx_quic_guarded_conn_close(quiche_conn *conn, bool app, uint64_t error,
    const uint8_t *reason, size_t len);
int ngx_quic_guarded_conn_path_stats(const quiche_conn *conn, size_t index,
    quiche_path_stats *out);
ssize_t ngx_quic_guarded_conn_stream_recv(quiche_conn *conn, uint64_t stream,
    uint8_t *out, size_t len, bool *fin, uint64_t *error);
ssize_t ngx_quic_guarded_conn_stream_send(quiche_conn *conn, uint64_t stream,
    const uint8_t *buf, size_t len, bool fin, uint64_t *error);
ssize_t ngx_quic_guarded_conn_stream_send_with(quiche_conn *conn,
    uint64_t stream, size_t len, bool fin,
    bool (*fill)(const struct iovec *iov, size_t iovcnt, void *argp),
    void *argp, uint64_t *error);
int ngx_quic_guarded_conn_stream_shutdown(quiche_conn *conn, uint64_t stream,
    enum quiche_shutdown direction, uint64_t error);
int ngx_quic_guarded_conn_report_qoe(quiche_conn *conn, uint64_t buffered_ms,
    uint64_t bitrate_bits_per_sec, bool stalled);
int ngx_quic_guarded_conn_stream_deadline(quiche_conn *conn, uint64_t stream,
    uint64_t within_ms);
int ngx_quic_guarded_conn_stream_announce(quiche_conn *conn, uint64_t stream,
    uint64_t length);
void ngx_quic_guarded_conn_free(quiche_conn *conn);


/* clients that come back: tools/nginx/staticlib/returning.rs */

typedef struct ngx_quic_keeper_s     ngx_quic_keeper_t;
typedef struct ngx_quic_returning_s  ngx_quic_returning_t;

/* of a token, in octets, and of the table */
extern const size_t  ngx_quic_keeper_sizes[2];

ngx_quic_keeper_t *ngx_quic_keeper_new(const u_char *key, uint64_t *table,
    uint64_t lifetime);
void ngx_quic_keeper_free(ngx_quic_keeper_t *keeper);
int ngx_quic_keeper_judge(const ngx_quic_keeper_t *keeper, const u_char *token,
    size_t len, const u_char *peer);
ngx_quic_returning_t *ngx_quic_returning_new(const ngx_quic_keeper_t *keeper,
    const u_char *token, size_t len);
void ngx_quic_returning_free(ngx_quic_returning_t *returning);
int ngx_quic_returning_begin_path(ngx_quic_returning_t *returning,
    const ngx_quic_keeper_t *keeper, quiche_conn *conn, uint64_t path_id,
    const u_char *peer, const u_char *local);
void ngx_quic_returning_path_validated(ngx_quic_returning_t *returning);
int ngx_quic_returning_tell(ngx_quic_returning_t *returning,
    const ngx_quic_keeper_t *keeper, quiche_conn *conn, int tells_addresses);
int ngx_quic_can_resume(const char *congestion_control);


#define quiche_conn_recv              ngx_quic_guarded_conn_recv
#define quiche_conn_send              ngx_quic_guarded_conn_send
#define quiche_conn_send_train        ngx_quic_guarded_conn_send_train
#define quiche_conn_on_timeout        ngx_quic_guarded_conn_on_timeout
#define quiche_conn_timeout_as_nanos  ngx_quic_guarded_conn_timeout_as_nanos
#define quiche_conn_is_closed         ngx_quic_guarded_conn_is_closed
#define quiche_conn_close             ngx_quic_guarded_conn_close
#define quiche_conn_path_stats        ngx_quic_guarded_conn_path_stats
#define quiche_conn_stream_recv       ngx_quic_guarded_conn_stream_recv
#define quiche_conn_stream_send       ngx_quic_guarded_conn_stream_send
#define quiche_conn_stream_send_with  ngx_quic_guarded_conn_stream_send_with
#define quiche_conn_stream_shutdown   ngx_quic_guarded_conn_stream_shutdown
#define quiche_conn_report_qoe        ngx_quic_guarded_conn_report_qoe
#define quiche_conn_stream_deadline   ngx_quic_guarded_conn_stream_deadline
#define quiche_conn_stream_announce   ngx_quic_guarded_conn_stream_announce
#define quiche_conn_free              ngx_quic_guarded_conn_free


#endif /* _NGX_EVENT_QUIC_GUARD_H_INCLUDED_ */
