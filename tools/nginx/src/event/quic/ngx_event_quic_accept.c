
/*
 * Copyright (C) Nginx, Inc.
 * Copyright (C) 2026, the mpq authors
 *
 * Datagrams that may begin a connection. One of nginx's connections is taken
 * only for a client that is let in: what is dropped, or answered at once, needs
 * none, so strays cannot use up worker_connections.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_quic_connection.h>


/* "quic_retry auto": while handshakes hold this part of worker_connections */
#define NGX_QUIC_BUSY_PART  4


static u_char *ngx_quic_log_stray(ngx_log_t *log, u_char *buf, size_t len);
static void ngx_quic_create_accepted(ngx_listening_t *ls,
    ngx_quic_admission_t *admission);
static void ngx_quic_close_accepted_connection(ngx_connection_t *c);


ngx_quic_find_conf_pt         ngx_quic_find_conf;

/* what ngx_quic_run() is called for */
static ngx_quic_admission_t  *ngx_quic_admitted;

/* connections whose handshake is not complete */
static ngx_uint_t             ngx_quic_handshakes;


void
ngx_quic_accept(ngx_listening_t *ls, ngx_quic_datagram_t *dgram)
{
    ngx_buf_t              b;
    ngx_log_t              log;
    ngx_quic_conf_t       *conf;
    ngx_connection_t       stray;
    ngx_quic_admission_t   admission;

    conf = ngx_quic_find_conf(ls, &dgram->to.sockaddr);
    if (conf == NULL) {
        return;
    }

    /* for ngx_quic_admit() and what it sends; not one of the worker's */

    ngx_memzero(&stray, sizeof(ngx_connection_t));
    ngx_memzero(&b, sizeof(ngx_buf_t));

    b.pos = dgram->data;
    b.last = dgram->data + dgram->len;

    log = ls->log;
    log.handler = ngx_quic_log_stray;
    log.data = &stray;

    stray.fd = (ngx_socket_t) -1;
    stray.log = &log;
    stray.buffer = &b;
    stray.listening = ls;
    stray.sockaddr = &dgram->from.sockaddr;
    stray.socklen = dgram->from_len;
    stray.local_sockaddr = &dgram->to.sockaddr;
    stray.local_socklen = dgram->to_len;

    if (ngx_quic_admit(&stray, conf, &admission.pkt, dgram->len) != NGX_OK) {
        return;
    }

    admission.dgram = dgram;

    ngx_quic_create_accepted(ls, &admission);
}


/* as ngx_http_log_error() */

static u_char *
ngx_quic_log_stray(ngx_log_t *log, u_char *buf, size_t len)
{
    ngx_connection_t *c = log->data;

    size_t   n;
    u_char  *p;
    u_char   text[NGX_SOCKADDR_STRLEN];

    p = buf;

    if (log->action) {
        p = ngx_snprintf(buf, len, " while %s", log->action);
        len -= p - buf;
    }

    n = ngx_sock_ntop(c->sockaddr, c->socklen, text, NGX_SOCKADDR_STRLEN, 0);

    return ngx_snprintf(p, len, ", client: %*s, server: %V", n, text,
                        &c->listening->addr_text);
}


/* as ngx_event_recvmsg() and nginx's own ngx_quic_recvmsg() */

static void
ngx_quic_create_accepted(ngx_listening_t *ls, ngx_quic_admission_t *admission)
{
    ngx_log_t            *log;
    ngx_event_t          *rev, *wev;
    ngx_connection_t     *c, *lc;
    ngx_quic_datagram_t  *dgram;

#if (NGX_DEBUG)
    ngx_str_t             addr;
    ngx_event_conf_t     *ecf;
    u_char                text[NGX_SOCKADDR_STRLEN];
#endif

    lc = ls->connection;
    dgram = admission->dgram;

#if (NGX_STAT_STUB)
    (void) ngx_atomic_fetch_add(ngx_stat_accepted, 1);
#endif

    ngx_accept_disabled = ngx_cycle->connection_n / 8
                          - ngx_cycle->free_connection_n;

    c = ngx_get_connection(lc->fd, lc->log);
    if (c == NULL) {
        ngx_quic_status->dropped++;
        return;
    }

    c->shared = 1;
    c->type = SOCK_DGRAM;
    c->socklen = dgram->from_len;

#if (NGX_STAT_STUB)
    (void) ngx_atomic_fetch_add(ngx_stat_active, 1);
#endif

    c->pool = ngx_create_pool(ls->pool_size, lc->log);
    if (c->pool == NULL) {
        goto failed;
    }

    /* of any size and family: the client may migrate */

    c->sockaddr = ngx_palloc(c->pool, NGX_SOCKADDRLEN);
    if (c->sockaddr == NULL) {
        goto failed;
    }

    ngx_memcpy(c->sockaddr, &dgram->from, dgram->from_len);

    c->local_sockaddr = ngx_palloc(c->pool, dgram->to_len);
    if (c->local_sockaddr == NULL) {
        goto failed;
    }

    ngx_memcpy(c->local_sockaddr, &dgram->to, dgram->to_len);
    c->local_socklen = dgram->to_len;

    log = ngx_palloc(c->pool, sizeof(ngx_log_t));
    if (log == NULL) {
        goto failed;
    }

    *log = ls->log;

    c->log = log;
    c->pool->log = log;
    c->listening = ls;

    rev = c->read;
    wev = c->write;

    rev->active = 1;
    wev->ready = 1;

    rev->log = log;
    wev->log = log;

    c->number = ngx_atomic_fetch_add(ngx_connection_counter, 1);

    c->start_time = ngx_current_msec;

#if (NGX_STAT_STUB)
    (void) ngx_atomic_fetch_add(ngx_stat_handled, 1);
#endif

    if (ls->addr_ntop) {
        c->addr_text.data = ngx_pnalloc(c->pool, NGX_SOCKADDR_STRLEN);
        if (c->addr_text.data == NULL) {
            goto failed;
        }

        c->addr_text.len = ngx_sock_ntop(c->sockaddr, c->socklen,
                                         c->addr_text.data,
                                         NGX_SOCKADDR_STRLEN, 0);
        if (c->addr_text.len == 0) {
            goto failed;
        }
    }

#if (NGX_DEBUG)

    ecf = ngx_event_get_conf(ngx_cycle->conf_ctx, ngx_event_core_module);

    ngx_debug_accepted_connection(ecf, c);

    if (log->log_level & NGX_LOG_DEBUG_EVENT) {
        addr.data = text;
        addr.len = ngx_sock_ntop(c->sockaddr, c->socklen, text,
                                 NGX_SOCKADDR_STRLEN, 1);

        ngx_log_debug4(NGX_LOG_DEBUG_EVENT, log, 0,
                       "*%uA quic recvmsg: %V fd:%d n:%uz",
                       c->number, &addr, c->fd, dgram->len);
    }

#endif

    log->data = NULL;
    log->handler = NULL;

    /* comes back to ngx_quic_run() */

    ngx_quic_admitted = admission;

    ls->handler(c);

    ngx_quic_admitted = NULL;

    return;

failed:

    ngx_quic_close_accepted_connection(c);
}


static void
ngx_quic_close_accepted_connection(ngx_connection_t *c)
{
    ngx_free_connection(c);

    c->fd = (ngx_socket_t) -1;

    if (c->pool) {
        ngx_destroy_pool(c->pool);
    }

#if (NGX_STAT_STUB)
    (void) ngx_atomic_fetch_add(ngx_stat_active, -1);
#endif
}


ngx_quic_admission_t *
ngx_quic_get_admission(void)
{
    return ngx_quic_admitted;
}


void
ngx_quic_handshake_begins(ngx_quic_connection_t *qc)
{
    qc->handshaking = 1;
    ngx_quic_handshakes++;
}


void
ngx_quic_handshake_ends(ngx_quic_connection_t *qc)
{
    if (qc->handshaking) {
        qc->handshaking = 0;
        ngx_quic_handshakes--;
    }
}


/*
 * Whether clients have to show their address first. Clients that never come
 * back cost a connection each until their time is up, and who forges addresses
 * has as many as he likes.
 */

ngx_uint_t
ngx_quic_wants_retry(ngx_quic_conf_t *conf)
{
    if (conf->retry != NGX_QUIC_RETRY_AUTO) {
        return conf->retry;
    }

    return ngx_quic_handshakes >= ngx_cycle->connection_n / NGX_QUIC_BUSY_PART;
}
