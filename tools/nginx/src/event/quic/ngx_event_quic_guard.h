
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

ssize_t ngx_quic_guarded_conn_recv(quiche_conn *conn, uint8_t *buf, size_t len,
    const quiche_recv_info *info);
ssize_t ngx_quic_guarded_conn_send(quiche_conn *conn, uint8_t *out, size_t len,
    quiche_send_info *info);
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
int ngx_quic_guarded_conn_stream_shutdown(quiche_conn *conn, uint64_t stream,
    enum quiche_shutdown direction, uint64_t error);
int ngx_quic_guarded_conn_report_qoe(quiche_conn *conn, uint64_t buffered_ms,
    uint64_t bitrate_bits_per_sec, bool stalled);
int ngx_quic_guarded_conn_stream_deadline(quiche_conn *conn, uint64_t stream,
    uint64_t within_ms);
int ngx_quic_guarded_conn_stream_announce(quiche_conn *conn, uint64_t stream,
    uint64_t length);
void ngx_quic_guarded_conn_free(quiche_conn *conn);


#define quiche_conn_recv              ngx_quic_guarded_conn_recv
#define quiche_conn_send              ngx_quic_guarded_conn_send
#define quiche_conn_on_timeout        ngx_quic_guarded_conn_on_timeout
#define quiche_conn_timeout_as_nanos  ngx_quic_guarded_conn_timeout_as_nanos
#define quiche_conn_is_closed         ngx_quic_guarded_conn_is_closed
#define quiche_conn_close             ngx_quic_guarded_conn_close
#define quiche_conn_path_stats        ngx_quic_guarded_conn_path_stats
#define quiche_conn_stream_recv       ngx_quic_guarded_conn_stream_recv
#define quiche_conn_stream_send       ngx_quic_guarded_conn_stream_send
#define quiche_conn_stream_shutdown   ngx_quic_guarded_conn_stream_shutdown
#define quiche_conn_report_qoe        ngx_quic_guarded_conn_report_qoe
#define quiche_conn_stream_deadline   ngx_quic_guarded_conn_stream_deadline
#define quiche_conn_stream_announce   ngx_quic_guarded_conn_stream_announce
#define quiche_conn_free              ngx_quic_guarded_conn_free


#endif /* _NGX_EVENT_QUIC_GUARD_H_INCLUDED_ */
