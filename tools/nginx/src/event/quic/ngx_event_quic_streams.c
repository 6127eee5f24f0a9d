
/*
 * Copyright (C) Nginx, Inc.
 * Copyright (C) 2026, the mpq authors
 *
 * Streams as nginx connections. quiche is never called from within one of its
 * own calls, nor nginx's handlers from within a call of quiche: input posts the
 * events of streams, and output is posted to run after them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_quic_connection.h>


#define NGX_QUIC_DEFAULT_URGENCY  127

/*
 * Most of an idle connection would be pools of its five streams that are not
 * for requests, with nginx's 16k each. Requests have pools of their own.
 */
#define NGX_QUIC_UNI_POOL_SIZE    1024
#define NGX_QUIC_BIDI_POOL_SIZE   2048

/* how many closed streams are looked at while others are active */
#define NGX_QUIC_CLOSED_PER_UPDATE  16


static void ngx_quic_readable_stream(ngx_connection_t *c, uint64_t id);
static void ngx_quic_writable_stream(ngx_connection_t *c, uint64_t id);
static ngx_quic_stream_t *ngx_quic_find_stream(ngx_quic_connection_t *qc,
    uint64_t id);
static ngx_quic_stream_t *ngx_quic_accept_streams(ngx_connection_t *c,
    uint64_t id);
static void ngx_quic_reject_stream(ngx_quic_connection_t *qc, uint64_t id);
static ngx_quic_stream_t *ngx_quic_create_stream(ngx_connection_t *c,
    uint64_t id);
static void ngx_quic_init_stream_handler(ngx_event_t *ev);
static void ngx_quic_init_streams_handler(ngx_connection_t *c);
static ngx_int_t ngx_quic_do_init_streams(ngx_connection_t *c);
static void ngx_quic_empty_handler(ngx_event_t *ev);
static void ngx_quic_stream_cleanup_handler(void *data);
static void ngx_quic_free_stream(ngx_quic_connection_t *qc,
    ngx_quic_stream_t *qs);


ngx_connection_t *
ngx_quic_open_stream(ngx_connection_t *c, ngx_uint_t bidi)
{
    int                     rc;
    uint64_t                id;
    ngx_connection_t       *pc, *sc;
    ngx_quic_stream_t      *qs;
    ngx_quic_connection_t  *qc;

    pc = c->quic ? c->quic->parent : c;
    qc = ngx_quic_get_connection(pc);

    if (qc->closing) {
        return NULL;
    }

    id = (bidi ? qc->server_bidi : qc->server_uni) << 2
         | NGX_QUIC_STREAM_SERVER_INITIATED
         | (bidi ? 0 : NGX_QUIC_STREAM_UNIDIRECTIONAL);

    /* quiche's defaults; what matters is that the stream exists from now on */

    rc = quiche_conn_stream_priority(qc->conn, id, NGX_QUIC_DEFAULT_URGENCY,
                                     true);
    if (rc != 0) {
        ngx_log_debug2(NGX_LOG_DEBUG_EVENT, c->log, 0,
                       "quic server stream id:0x%xL refused: %d", id, rc);
        return NULL;
    }

    if (bidi) {
        qc->server_bidi++;

    } else {
        qc->server_uni++;
    }

    qs = ngx_quic_create_stream(pc, id);
    if (qs == NULL) {
        return NULL;
    }

    sc = qs->connection;

    sc->write->active = 1;
    sc->write->ready = 1;

    if (bidi) {
        sc->read->active = 1;
    }

    return sc;
}


void
ngx_quic_rbtree_insert_stream(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel)
{
    ngx_rbtree_node_t  **p;
    ngx_quic_stream_t   *qn, *qnt;

    for ( ;; ) {
        qn = (ngx_quic_stream_t *) node;
        qnt = (ngx_quic_stream_t *) temp;

        p = (qn->id < qnt->id) ? &temp->left : &temp->right;

        if (*p == sentinel) {
            break;
        }

        temp = *p;
    }

    *p = node;
    node->parent = temp;
    node->left = sentinel;
    node->right = sentinel;
    ngx_rbt_red(node);
}


static ngx_quic_stream_t *
ngx_quic_find_stream(ngx_quic_connection_t *qc, uint64_t id)
{
    ngx_quic_stream_t  *qs;
    ngx_rbtree_node_t  *node;

    node = qc->streams.root;

    while (node != &qc->sentinel) {
        qs = (ngx_quic_stream_t *) node;

        if (id == qs->id) {
            return qs;
        }

        node = (id < qs->id) ? node->left : node->right;
    }

    return NULL;
}


/* posts the events of streams that input has made ready */

void
ngx_quic_update_streams(ngx_connection_t *c)
{
    int64_t                 id;
    ngx_uint_t              n, busy;
    ngx_queue_t            *q, *last;
    ngx_quic_stream_t      *qs;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    for ( ;; ) {
        id = quiche_conn_stream_readable_next(qc->conn);
        if (id < 0) {
            break;
        }

        ngx_quic_readable_stream(c, id);
    }

    for ( ;; ) {
        id = quiche_conn_stream_writable_next(qc->conn);
        if (id < 0) {
            break;
        }

        ngx_quic_writable_stream(c, id);
    }

    /*
     * Streams that nginx has closed: has everything arrived?  A few at a time
     * while others are active, and all when it decides about the connection.
     */

    busy = qc->nactive && !qc->shutdown;
    n = busy ? NGX_QUIC_CLOSED_PER_UPDATE : NGX_MAX_UINT32_VALUE;
    last = ngx_queue_last(&qc->closed);

    while (n-- && !ngx_queue_empty(&qc->closed)) {
        q = ngx_queue_head(&qc->closed);
        qs = ngx_queue_data(q, ngx_quic_stream_t, queue);

        ngx_queue_remove(q);

        if (quiche_conn_stream_capacity(qc->conn, qs->id)
            == QUICHE_ERR_INVALID_STREAM_STATE)
        {
            ngx_quic_free_stream(qc, qs);

        } else {
            ngx_queue_insert_tail(&qc->closed, q);
        }

        if (q == last) {
            break;
        }
    }

    if (busy) {
        return;
    }

    if (ngx_quic_streams_done(qc) == NGX_OK) {

        if (!c->reusable) {
            ngx_reusable_connection(c, 1);
        }

        if (qc->shutdown) {
            ngx_quic_shutdown_quic(c);
        }
    }
}


static void
ngx_quic_readable_stream(ngx_connection_t *c, uint64_t id)
{
    bool                    fin;
    u_char                  nothing;
    ssize_t                 n;
    uint64_t                code;
    ngx_quic_stream_t      *qs;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    fin = false;

    qs = ngx_quic_find_stream(qc, id);

    if (qs == NULL) {
        qs = ngx_quic_accept_streams(c, id);
    }

    if (qs == NULL || qs->connection == NULL) {
        ngx_quic_reject_stream(qc, id);
        return;
    }

    /*
     * Who writes a response does not read, but looks whether it was cancelled.
     * A finished stream has no data left, but a FIN, or the code of a reset.
     */

    if (quiche_conn_stream_finished(qc->conn, id)) {
        n = quiche_conn_stream_recv(qc->conn, id, &nothing, 1, &fin, &code);

        if (n == QUICHE_ERR_STREAM_RESET) {
            qs->recv_reset = 1;
            qs->connection->read->error = 1;

        } else if (n == 0 && fin) {
            qs->recv_fin = 1;
        }
    }

    ngx_quic_set_event(qs->connection->read);
}


static void
ngx_quic_writable_stream(ngx_connection_t *c, uint64_t id)
{
    int                     rc;
    ngx_event_t            *wev;
    ngx_quic_stream_t      *qs;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    qs = ngx_quic_find_stream(qc, id);

    if (qs == NULL || qs->connection == NULL || qs->send_reset) {
        return;
    }

    if (qs->buffer) {
        (void) ngx_quic_flush_uni(qc, qs);
        ngx_quic_post_push(qc);
        return;
    }

    wev = qs->connection->write;

    rc = quiche_conn_stream_writable(qc->conn, id, 1);

    if (rc == QUICHE_ERR_STREAM_STOPPED) {
        /* as nginx does: RFC 9000, 3.5 wants a RESET_STREAM in return */
        qs->send_reset = 1;
        wev->error = 1;

    } else if (rc != 1 || wev->ready || qs->is_blocked) {
        return;
    }

    ngx_quic_set_event(wev);
}


/*
 * RFC 9000, 2.1: opening a stream opens those of its kind with lower numbers.
 */

static ngx_quic_stream_t *
ngx_quic_accept_streams(ngx_connection_t *c, uint64_t id)
{
    uint64_t                n, *next;
    ngx_event_t            *rev;
    ngx_quic_stream_t      *qs;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    if (id & NGX_QUIC_STREAM_SERVER_INITIATED) {
        return NULL;
    }

    next = (id & NGX_QUIC_STREAM_UNIDIRECTIONAL) ? &qc->client_uni
                                                 : &qc->client_bidi;

    n = id >> 2;

    if (n < *next || qc->shutdown || qc->closing) {
        return NULL;
    }

    qs = NULL;

    while (*next <= n) {

        qs = ngx_quic_create_stream(c, *next << 2
                                      | (id & NGX_QUIC_STREAM_UNIDIRECTIONAL));
        (*next)++;

        if (qs == NULL) {
            continue;
        }

        ngx_queue_insert_tail(&qc->uninitialized, &qs->queue);

        rev = qs->connection->read;
        rev->handler = ngx_quic_init_stream_handler;

        if (qc->initialized) {
            ngx_post_event(rev, &ngx_posted_events);
        }
    }

    return qs;
}


static void
ngx_quic_reject_stream(ngx_quic_connection_t *qc, uint64_t id)
{
    uint64_t  code;

    code = (id & NGX_QUIC_STREAM_UNIDIRECTIONAL)
           ? qc->conf->stream_reject_code_uni
           : qc->conf->stream_reject_code_bidi;

    if (code == 0) {
        code = qc->conf->stream_close_code;
    }

    (void) quiche_conn_stream_shutdown(qc->conn, id, QUICHE_SHUTDOWN_READ,
                                       code);

    if (!(id & NGX_QUIC_STREAM_UNIDIRECTIONAL)) {
        (void) quiche_conn_stream_shutdown(qc->conn, id, QUICHE_SHUTDOWN_WRITE,
                                           code);
    }

    ngx_quic_post_push(qc);
}


static void
ngx_quic_init_stream_handler(ngx_event_t *ev)
{
    ngx_connection_t   *c;
    ngx_quic_stream_t  *qs;

    c = ev->data;
    qs = c->quic;

    ngx_log_debug0(NGX_LOG_DEBUG_EVENT, c->log, 0, "quic init stream");

    if ((qs->id & NGX_QUIC_STREAM_UNIDIRECTIONAL) == 0) {
        c->write->active = 1;
        c->write->ready = 1;
    }

    c->read->active = 1;

    ngx_queue_remove(&qs->queue);

    c->listening->handler(c);
}


ngx_int_t
ngx_quic_init_streams(ngx_connection_t *c)
{
    ngx_int_t               rc;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    if (qc->initialized || qc->initializing) {
        return NGX_OK;
    }

    qc->initializing = 1;

    rc = ngx_ssl_ocsp_validate(c);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (rc == NGX_AGAIN) {
        c->ssl->handler = ngx_quic_init_streams_handler;
        return NGX_OK;
    }

    return ngx_quic_do_init_streams(c);
}


static void
ngx_quic_init_streams_handler(ngx_connection_t *c)
{
    if (ngx_quic_do_init_streams(c) != NGX_OK) {
        ngx_quic_close_connection(c, NGX_ERROR);
        return;
    }

    ngx_quic_post_push(ngx_quic_get_connection(c));
}


static ngx_int_t
ngx_quic_do_init_streams(ngx_connection_t *c)
{
    ngx_queue_t            *q;
    ngx_quic_stream_t      *qs;
    ngx_quic_connection_t  *qc;

    ngx_log_debug0(NGX_LOG_DEBUG_EVENT, c->log, 0, "quic init streams");

    qc = ngx_quic_get_connection(c);

    if (qc->conf->init) {
        if (qc->conf->init(c) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    for (q = ngx_queue_head(&qc->uninitialized);
         q != ngx_queue_sentinel(&qc->uninitialized);
         q = ngx_queue_next(q))
    {
        qs = ngx_queue_data(q, ngx_quic_stream_t, queue);
        ngx_post_event(qs->connection->read, &ngx_posted_events);
    }

    qc->initialized = 1;

    if (!qc->closing && qc->close.timer_set) {
        ngx_del_timer(&qc->close);
    }

    return NGX_OK;
}


static ngx_quic_stream_t *
ngx_quic_create_stream(ngx_connection_t *c, uint64_t id)
{
    ngx_log_t              *log;
    ngx_pool_t             *pool;
    ngx_uint_t              reusable;
    ngx_queue_t            *q;
    ngx_connection_t       *sc;
    ngx_quic_stream_t      *qs;
    ngx_pool_cleanup_t     *cln;
    ngx_quic_connection_t  *qc;

    ngx_log_debug1(NGX_LOG_DEBUG_EVENT, c->log, 0,
                   "quic stream id:0x%xL create", id);

    qc = ngx_quic_get_connection(c);

    if (!ngx_queue_empty(&qc->free_streams)) {
        q = ngx_queue_head(&qc->free_streams);
        qs = ngx_queue_data(q, ngx_quic_stream_t, queue);
        ngx_queue_remove(&qs->queue);

    } else {
        /* their number is limited, as that of streams at one time is */

        qs = ngx_palloc(c->pool, sizeof(ngx_quic_stream_t));
        if (qs == NULL) {
            return NULL;
        }
    }

    ngx_memzero(qs, sizeof(ngx_quic_stream_t));

    qs->parent = c;
    qs->id = id;

    reusable = c->reusable;

    pool = ngx_create_pool((id & NGX_QUIC_STREAM_UNIDIRECTIONAL)
                           ? NGX_QUIC_UNI_POOL_SIZE : NGX_QUIC_BIDI_POOL_SIZE,
                           c->log);
    if (pool == NULL) {
        goto failed;
    }

    log = ngx_palloc(pool, sizeof(ngx_log_t));
    if (log == NULL) {
        goto failed_pool;
    }

    *log = *c->log;
    pool->log = log;

    cln = ngx_pool_cleanup_add(pool, 0);
    if (cln == NULL) {
        goto failed_pool;
    }

    /* so that it is not this connection that is closed to make room */
    ngx_reusable_connection(c, 0);

    sc = ngx_get_connection(c->fd, log);
    if (sc == NULL) {
        goto failed_pool;
    }

    sc->sockaddr = ngx_palloc(pool, c->socklen);
    if (sc->sockaddr == NULL) {
        goto failed_connection;
    }

    ngx_memcpy(sc->sockaddr, c->sockaddr, c->socklen);
    sc->socklen = c->socklen;

    if (c->addr_text.data) {
        sc->addr_text.data = ngx_pstrdup(pool, &c->addr_text);
        if (sc->addr_text.data == NULL) {
            goto failed_connection;
        }

        sc->addr_text.len = c->addr_text.len;
    }

    qs->connection = sc;

    sc->quic = qs;
    sc->shared = 1;
    sc->type = SOCK_STREAM;
    sc->pool = pool;
    sc->ssl = c->ssl;
    /* files are read to where they are sent from, see http-files.patch */
    sc->ssl->sendfile = 1;
    sc->listening = c->listening;
    sc->local_sockaddr = c->local_sockaddr;
    sc->local_socklen = c->local_socklen;
    sc->number = ngx_atomic_fetch_add(ngx_connection_counter, 1);
    sc->start_time = c->start_time;
    sc->tcp_nodelay = NGX_TCP_NODELAY_DISABLED;

    ngx_quic_set_stream_io(sc);

    sc->read->log = log;
    sc->write->log = log;

    sc->read->handler = ngx_quic_empty_handler;
    sc->write->handler = ngx_quic_empty_handler;

    log->connection = sc->number;

    if (id & NGX_QUIC_STREAM_UNIDIRECTIONAL) {
        if (id & NGX_QUIC_STREAM_SERVER_INITIATED) {
            qs->recv_fin = 1;

        } else {
            qs->send_fin = 1;
        }
    }

    cln->handler = ngx_quic_stream_cleanup_handler;
    cln->data = sc;

    ngx_rbtree_insert(&qc->streams, &qs->node);

    qc->nactive++;

    return qs;

failed_connection:

    ngx_free_connection(sc);
    sc->fd = (ngx_socket_t) -1;

failed_pool:

    ngx_destroy_pool(pool);

failed:

    ngx_queue_insert_tail(&qc->free_streams, &qs->queue);
    ngx_reusable_connection(c, reusable);

    return NULL;
}


void
ngx_quic_cancelable_stream(ngx_connection_t *c)
{
    ngx_connection_t       *pc;
    ngx_quic_stream_t      *qs;
    ngx_quic_connection_t  *qc;

    qs = c->quic;
    pc = qs->parent;
    qc = ngx_quic_get_connection(pc);

    if (qs->cancelable) {
        return;
    }

    qs->cancelable = 1;
    qc->nactive--;

    if (ngx_quic_streams_done(qc) == NGX_OK) {
        ngx_reusable_connection(pc, 1);

        if (qc->shutdown) {
            ngx_quic_shutdown_quic(pc);
        }
    }
}


/* nothing of a request is left in nginx or in quiche */

ngx_int_t
ngx_quic_streams_done(ngx_quic_connection_t *qc)
{
    return (qc->nactive == 0 && ngx_queue_empty(&qc->closed)) ? NGX_OK
                                                              : NGX_DECLINED;
}


static void
ngx_quic_empty_handler(ngx_event_t *ev)
{
}


void
ngx_quic_set_event(ngx_event_t *ev)
{
    ev->ready = 1;

    if (ev->active) {
        ngx_post_event(ev, &ngx_posted_events);
    }
}


static void
ngx_quic_stream_cleanup_handler(void *data)
{
    ngx_connection_t *c = data;

    ngx_quic_stream_t      *qs;
    ngx_connection_t       *pc;
    ngx_quic_connection_t  *qc;

    qs = c->quic;
    pc = qs->parent;
    qc = ngx_quic_get_connection(pc);

    ngx_log_debug1(NGX_LOG_DEBUG_EVENT, pc->log, 0,
                   "quic stream id:0x%xL cleanup", qs->id);

    if (!qc->closing) {
        (void) ngx_quic_shutdown_stream(c, NGX_RDWR_SHUTDOWN);
    }

    qs->connection = NULL;

    if (qs->is_blocked || qs->is_buffered) {
        ngx_queue_remove(&qs->blocked);
    }

    if (!qs->cancelable) {
        qc->nactive--;
    }

    if (qc->closing) {
        ngx_quic_free_stream(qc, qs);

        /* ngx_quic_close_connection() waits for the last one */
        ngx_post_event(&qc->close, &ngx_posted_events);
        return;
    }

    ngx_queue_insert_tail(&qc->closed, &qs->queue);

    /* is this all?  What quiche still has ends with input, and so an update */

    if (qc->nactive == 0
        && quiche_conn_stream_capacity(qc->conn, qs->id)
           == QUICHE_ERR_INVALID_STREAM_STATE)
    {
        ngx_quic_post_update(qc);
    }
}


static void
ngx_quic_free_stream(ngx_quic_connection_t *qc, ngx_quic_stream_t *qs)
{
    ngx_rbtree_delete(&qc->streams, &qs->node);
    ngx_queue_insert_tail(&qc->free_streams, &qs->queue);
}


/* NGX_AGAIN: some handlers hold on to their streams for now */

ngx_int_t
ngx_quic_close_streams(ngx_connection_t *c)
{
    ngx_pool_t             *pool;
    ngx_queue_t            *q, posted_events;
    ngx_connection_t       *sc;
    ngx_rbtree_node_t      *node;
    ngx_quic_stream_t      *qs;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    while (!ngx_queue_empty(&qc->uninitialized)) {
        q = ngx_queue_head(&qc->uninitialized);
        ngx_queue_remove(q);

        qs = ngx_queue_data(q, ngx_quic_stream_t, queue);
        pool = qs->connection->pool;

        ngx_close_connection(qs->connection);
        ngx_destroy_pool(pool);
    }

    while (!ngx_queue_empty(&qc->closed)) {
        q = ngx_queue_head(&qc->closed);
        ngx_queue_remove(q);

        qs = ngx_queue_data(q, ngx_quic_stream_t, queue);
        ngx_quic_free_stream(qc, qs);
    }

    if (qc->streams.root == &qc->sentinel) {
        return NGX_OK;
    }

    ngx_queue_init(&posted_events);

    for (node = ngx_rbtree_min(qc->streams.root, &qc->sentinel);
         node;
         node = ngx_rbtree_next(&qc->streams, node))
    {
        qs = (ngx_quic_stream_t *) node;
        sc = qs->connection;

        qs->recv_reset = 1;
        qs->send_reset = 1;

        sc->read->error = 1;
        sc->read->ready = 1;
        sc->write->error = 1;
        sc->write->ready = 1;

        sc->close = 1;

        if (sc->read->posted) {
            ngx_delete_posted_event(sc->read);
        }

        ngx_post_event(sc->read, &posted_events);
    }

    ngx_event_process_posted((ngx_cycle_t *) ngx_cycle, &posted_events);

    if (qc->streams.root == &qc->sentinel) {
        return NGX_OK;
    }

    ngx_log_debug0(NGX_LOG_DEBUG_EVENT, c->log, 0,
                   "quic connection has active streams");

    return NGX_AGAIN;
}
