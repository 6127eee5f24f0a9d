
/*
 * Copyright (C) Nginx, Inc.
 * Copyright (C) 2026, the mpq authors
 *
 * The life of a connection.
 *
 *     datagrams -> quiche -> update: path events, IDs, streams' events posted
 *         streams' handlers run -> push: datagrams, quiche's timer
 *
 * One connection goes through all of it before the next one's update, so that
 * its peer has an answer to work on meanwhile.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_quic_connection.h>


/* when the kernel has no room for a datagram */
#define NGX_QUIC_SOCKET_RETRY_DELAY  1   /* ms */


static ngx_int_t ngx_quic_create_connection(ngx_connection_t *c,
    ngx_quic_conf_t *conf, ngx_quic_header_t *pkt);
static void ngx_quic_input_handler(ngx_event_t *rev);
static void ngx_quic_next_update_handler(ngx_event_t *ev);
static void ngx_quic_update_handler(ngx_event_t *ev);
static void ngx_quic_push_handler(ngx_event_t *ev);
static void ngx_quic_timer_handler(ngx_event_t *ev);
static void ngx_quic_close_handler(ngx_event_t *ev);
static void ngx_quic_set_timer(ngx_connection_t *c);
static void ngx_quic_log_end(ngx_connection_t *c);


static ngx_queue_t  ngx_quic_updates = {
    &ngx_quic_updates, &ngx_quic_updates
};

static ngx_event_t  ngx_quic_next_update = {
    .handler = ngx_quic_next_update_handler
};


void
ngx_quic_run(ngx_connection_t *c, ngx_quic_conf_t *conf)
{
    ngx_int_t               rc;
    ngx_quic_admission_t   *admission;
    ngx_quic_connection_t  *qc;

    ngx_log_debug0(NGX_LOG_DEBUG_EVENT, c->log, 0, "quic run");

    admission = ngx_quic_get_admission();

    rc = ngx_quic_create_connection(c, conf, &admission->pkt);

    if (rc == NGX_ERROR) {
        ngx_quic_status->dropped++;
    }

    if (rc != NGX_OK) {
        ngx_quic_close_connection(c, rc);
        return;
    }

    qc = ngx_quic_get_connection(c);

    c->read->handler = ngx_quic_input_handler;

    c->idle = 1;
    ngx_reusable_connection(c, 1);

    ngx_add_timer(&qc->close, conf->handshake_timeout);

    ngx_quic_input(c, admission->dgram);

    /* whoever sent what cannot be decrypted is not answered */

    if (quiche_conn_is_closed(qc->conn)) {
        ngx_log_error(NGX_LOG_INFO, c->log, 0,
                      "quic failed to decrypt initial packet");
        ngx_quic_status->dropped++;
        ngx_quic_close_connection(c, NGX_DONE);
    }
}


static ngx_int_t
ngx_quic_create_connection(ngx_connection_t *c, ngx_quic_conf_t *conf,
    ngx_quic_header_t *pkt)
{
    size_t                  len;
    quiche_config          *config;
    ngx_quic_connection_t  *qc;

    u_char                  token[NGX_QUIC_SR_TOKEN_LEN];
    u_char                  buf[NGX_MAX_ERROR_STR];
    u_char                  id[NGX_QUIC_CID_LEN];

    c->log->action = "creating quic connection";

    config = ngx_quic_transport_config(conf, c->log);
    if (config == NULL) {
        return NGX_ERROR;
    }

    qc = ngx_pcalloc(c->pool, sizeof(ngx_quic_connection_t));
    if (qc == NULL) {
        return NGX_ERROR;
    }

    qc->conf = conf;
    qc->error = (ngx_uint_t) -1;
    qc->udp.connection = c;

    ngx_queue_init(&qc->cids);
    ngx_queue_init(&qc->uninitialized);
    ngx_queue_init(&qc->closed);
    ngx_queue_init(&qc->free_streams);
    ngx_queue_init(&qc->blocked);
    ngx_queue_init(&qc->buffered);

    ngx_rbtree_init(&qc->streams, &qc->sentinel, ngx_quic_rbtree_insert_stream);

    qc->update.log = c->log;
    qc->update.data = c;
    qc->update.handler = ngx_quic_update_handler;

    qc->push.log = c->log;
    qc->push.data = c;
    qc->push.handler = ngx_quic_push_handler;

    qc->timer.log = c->log;
    qc->timer.data = c;
    qc->timer.handler = ngx_quic_timer_handler;

    qc->close.log = c->log;
    qc->close.data = c;
    qc->close.handler = ngx_quic_close_handler;

    /*
     * Never an ID that the client has chosen, not even after a Retry: it leads
     * to this worker, and its reset token is nobody else's.
     */

    if (ngx_quic_new_cid(c->log, id) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_quic_new_sr_token(c->log, id, NGX_QUIC_CID_LEN, conf->sr_token_key,
                              token)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_ssl_create_connection(conf->ssl, c, 0) != NGX_OK) {
        return NGX_ERROR;
    }

    c->ssl->no_wait_shutdown = 1;

    quiche_config_set_stateless_reset_token(config, token);

    /* takes the SSL object over, even if it fails */

    qc->conn = quiche_conn_accept_with_tls(id, NGX_QUIC_CID_LEN,
                                        pkt->odcid,
                                        pkt->retried ? pkt->odcid_len : 0,
                                        pkt->dcid,
                                        pkt->retried ? pkt->dcid_len : 0,
                                        c->local_sockaddr, c->local_socklen,
                                        c->sockaddr, c->socklen, config,
                                        c->ssl->connection, pkt->validated);
    if (qc->conn == NULL) {
        ngx_log_error(NGX_LOG_ALERT, c->log, 0,
                      "quiche_conn_accept_with_tls() failed");
        c->ssl = NULL;
        return NGX_ERROR;
    }

    c->udp = &qc->udp;

    ngx_quic_status_open(c);
    ngx_quic_handshake_begins(qc);

    if (ngx_quic_create_returning(c, pkt) != NGX_OK) {
        return NGX_ERROR;
    }

    len = ngx_quic_early_data_context(conf, buf, sizeof(buf));

    if (SSL_set_quic_early_data_context(c->ssl->connection, buf, len) != 1) {
        ngx_log_error(NGX_LOG_INFO, c->log, 0,
                      "quic SSL_set_quic_early_data_context() failed");
        return NGX_ERROR;
    }

    if (ngx_quic_listen(c, id, NGX_QUIC_CID_LEN, NULL) != NGX_OK) {
        return NGX_ERROR;
    }

    /* the client's choice, or the Retry's, until it has seen ours */

    if (ngx_quic_listen(c, pkt->dcid, pkt->dcid_len, &qc->initial) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_log_debug0(NGX_LOG_DEBUG_EVENT, c->log, 0, "quic connection created");

    return NGX_OK;
}


void
ngx_quic_input(ngx_connection_t *c, ngx_quic_datagram_t *dgram)
{
    ssize_t                 n;
    quiche_recv_info        info;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    c->log->action = "handling quic input";

    /* costs several paths nothing: they have events for what matters */

    if (qc->established
        && !quiche_conn_is_multipath(qc->conn)
        && ngx_cmp_sockaddr(&dgram->from.sockaddr, dgram->from_len,
                            c->sockaddr, c->socklen, 1)
           != NGX_OK)
    {
        qc->moved = 1;
    }

    info.from = &dgram->from.sockaddr;
    info.from_len = dgram->from_len;
    info.to = &dgram->to.sockaddr;
    info.to_len = dgram->to_len;

    n = quiche_conn_recv_with_ecn(qc->conn, dgram->data, dgram->len, &info,
                                  dgram->ecn);

    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, c->log, 0,
                   "quic datagram size:%uz rc:%z", dgram->len, n);

    if (n == QUICHE_ERR_TLS_FAIL && !qc->closing) {
        ngx_ssl_error(NGX_LOG_INFO, c->log, 0, "quic handshake failed");

    } else if (n < 0 && n != QUICHE_ERR_DONE && !qc->closing) {
        ngx_log_error(NGX_LOG_INFO, c->log, 0, "quic packet refused: error %z",
                      n);
    }

    /* a packet that could not be decrypted leaves one too */

    if (ERR_peek_error()) {
        ERR_clear_error();
    }

    ngx_quic_post_update(qc);
}


void
ngx_quic_post_update(ngx_quic_connection_t *qc)
{
    ngx_quic_next_update.log = ngx_cycle->log;

    ngx_post_event(&qc->update, &ngx_quic_updates);
    ngx_post_event(&ngx_quic_next_update, &ngx_posted_events);
}


static void
ngx_quic_next_update_handler(ngx_event_t *ev)
{
    ngx_queue_t  *q;
    ngx_event_t  *update;

    if (ngx_queue_empty(&ngx_quic_updates)) {
        return;
    }

    if (ngx_queue_empty(&ngx_posted_events)) {
        q = ngx_queue_head(&ngx_quic_updates);
        update = ngx_queue_data(q, ngx_event_t, queue);

        ngx_delete_posted_event(update);

        update->handler(update);
    }

    /* after whatever the last one has posted */

    ngx_post_event(ev, &ngx_posted_events);
}


static void
ngx_quic_input_handler(ngx_event_t *rev)
{
    ngx_connection_t       *c;
    ngx_quic_connection_t  *qc;

    ngx_log_debug0(NGX_LOG_DEBUG_EVENT, rev->log, 0, "quic input handler");

    c = rev->data;
    qc = ngx_quic_get_connection(c);

    c->log->action = "handling quic input";

    if (!c->close) {
        return;
    }

    c->close = 0;

    if (ngx_exiting && !qc->initialized && !qc->closing) {
        /* its handshake goes on; it leaves with its first request */
        qc->leave = 1;
        return;
    }

    if (!ngx_exiting) {
        qc->error = NGX_QUIC_ERR_NO_ERROR;
        qc->error_reason = "graceful shutdown";
        ngx_quic_close_connection(c, NGX_ERROR);
        return;
    }

    if (!qc->closing && qc->conf->shutdown) {
        qc->conf->shutdown(c);
    }
}


static void
ngx_quic_update_handler(ngx_event_t *ev)
{
    bool                    is_app;
    size_t                  len;
    uint64_t                code;
    const uint8_t          *reason;
    ngx_connection_t       *c;
    ngx_quic_connection_t  *qc;

    c = ev->data;
    qc = ngx_quic_get_connection(c);

    c->log->action = "handling quic events";

    if (quiche_conn_is_closed(qc->conn)) {
        ngx_quic_log_end(c);
        ngx_quic_close_connection(c, NGX_DONE);
        return;
    }

    if (qc->closing) {
        ngx_quic_post_push(qc);
        return;
    }

    if (quiche_conn_is_draining(qc->conn)
        || quiche_conn_local_error(qc->conn, &is_app, &code, &reason, &len))
    {
        ngx_quic_log_end(c);
        ngx_quic_close_connection(c, NGX_OK);
        return;
    }

    if (ngx_quic_update_paths(c) != NGX_OK) {
        ngx_quic_close_connection(c, NGX_ERROR);
        return;
    }

    if (qc->established || quiche_conn_is_in_early_data(qc->conn)) {

        if (ngx_quic_init_streams(c) != NGX_OK) {
            ngx_quic_close_connection(c, NGX_ERROR);
            return;
        }
    }

    ngx_quic_update_streams(c);

    ngx_quic_post_push(qc);
}


void
ngx_quic_post_push(ngx_quic_connection_t *qc)
{
    /* last, so that streams add to the datagrams that it sends */

    if (qc->push.posted) {
        ngx_delete_posted_event(&qc->push);
    }

    ngx_post_event(&qc->push, &ngx_posted_events);
}


static void
ngx_quic_push_handler(ngx_event_t *ev)
{
    ngx_connection_t       *c;
    ngx_quic_connection_t  *qc;

    c = ev->data;
    qc = ngx_quic_get_connection(c);

    if (qc->leave && qc->initialized && qc->client_bidi && !qc->closing) {
        /* the first request has begun */
        qc->leave = 0;

        if (qc->conf->shutdown) {
            qc->conf->shutdown(c);
        }
    }

    ngx_quic_flush_unis(qc);
    ngx_quic_output(c);

    if (qc->pending && !qc->push.timer_set) {
        ngx_add_timer(&qc->push, NGX_QUIC_SOCKET_RETRY_DELAY);
    }

    if (quiche_conn_is_closed(qc->conn)) {
        ngx_quic_close_connection(c, NGX_DONE);
        return;
    }

    ngx_quic_wake_streams(qc);

    ngx_quic_set_timer(c);
}


static void
ngx_quic_set_timer(ngx_connection_t *c)
{
    uint64_t                ns;
    ngx_msec_t              key, ms;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    ns = quiche_conn_timeout_as_nanos(qc->conn);

    if (ns == UINT64_MAX) {
        if (qc->timer.timer_set) {
            ngx_del_timer(&qc->timer);
        }

        return;
    }

    /* never zero, or the loop would spin */

    ms = (ngx_msec_t) (ns / 1000000 + 1);
    key = ngx_current_msec + ms;

    if (qc->timer.timer_set) {

        if ((ngx_msec_int_t) (qc->timer.timer.key - key) <= 0
            && (ngx_msec_int_t) (key - qc->timer.timer.key)
               < NGX_TIMER_LAZY_DELAY)
        {
            /* comes a little early, which does no harm */
            return;
        }

        ngx_del_timer(&qc->timer);
    }

    ngx_add_timer(&qc->timer, ms);
}


static void
ngx_quic_timer_handler(ngx_event_t *ev)
{
    ngx_connection_t       *c;
    ngx_quic_connection_t  *qc;

    c = ev->data;
    qc = ngx_quic_get_connection(c);

    if (quiche_conn_timeout_as_nanos(qc->conn) == 0) {
        quiche_conn_on_timeout(qc->conn);
        ngx_quic_post_update(qc);
        return;
    }

    ngx_quic_set_timer(c);
}


static void
ngx_quic_close_handler(ngx_event_t *ev)
{
    ngx_connection_t       *c;
    ngx_quic_connection_t  *qc;

    ngx_log_debug0(NGX_LOG_DEBUG_EVENT, ev->log, 0, "quic close handler");

    c = ev->data;

    if (ev->timedout) {
        ev->timedout = 0;

        qc = ngx_quic_get_connection(c);

        ngx_log_error(NGX_LOG_INFO, c->log, NGX_ETIMEDOUT,
                      "quic handshake timed out");

        qc->error = NGX_QUIC_ERR_NO_ERROR;
        qc->error_reason = "handshake timeout";
    }

    ngx_quic_close_connection(c, NGX_OK);
}


void
ngx_quic_finalize_connection(ngx_connection_t *c, ngx_uint_t err,
    const char *reason)
{
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    if (qc->closing) {
        return;
    }

    qc->error = err;
    qc->error_reason = reason;
    qc->error_app = 1;

    ngx_post_event(&qc->close, &ngx_posted_events);
}


void
ngx_quic_shutdown_connection(ngx_connection_t *c, ngx_uint_t err,
    const char *reason)
{
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);
    qc->shutdown = 1;
    qc->shutdown_code = err;
    qc->shutdown_reason = reason;

    ngx_quic_shutdown_quic(c);
}


void
ngx_quic_shutdown_quic(ngx_connection_t *c)
{
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    if (ngx_quic_streams_done(qc) == NGX_OK) {
        ngx_quic_finalize_connection(c, qc->shutdown_code,
                                     qc->shutdown_reason);
    }
}


/*
 * NGX_OK: tell the client and wait for what is still on its way; NGX_ERROR:
 * tell the client; NGX_DONE: it is over.
 */

void
ngx_quic_close_connection(ngx_connection_t *c, ngx_int_t rc)
{
    size_t                  len;
    ngx_pool_t             *pool;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    if (qc == NULL) {
        ngx_log_debug1(NGX_LOG_DEBUG_EVENT, c->log, 0,
                       "quic packet rejected rc:%i, cleanup connection", rc);
        goto quic_done;
    }

    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, c->log, 0, "quic close %s rc:%i",
                   qc->closing ? "resumed": "initiated", rc);

    if (rc != NGX_OK) {
        qc->abort = 1;
    }

    if (!qc->closing) {

        if (qc->close.timer_set) {
            ngx_del_timer(&qc->close);
        }

        if (rc != NGX_DONE) {

            if (qc->error == (ngx_uint_t) -1) {
                qc->error = NGX_QUIC_ERR_INTERNAL_ERROR;
                qc->error_app = 0;
            }

            len = qc->error_reason ? ngx_strlen(qc->error_reason) : 0;

            /* has no effect on a connection that is closed already */

            (void) quiche_conn_close(qc->conn, qc->error_app, qc->error,
                                     (u_char *) qc->error_reason, len);
            ngx_quic_output(c);
        }

        qc->closing = 1;
    }

    if (ngx_quic_close_streams(c) == NGX_AGAIN) {
        return;
    }

    if (!qc->abort && !quiche_conn_is_closed(qc->conn)) {
        /* quiche answers stray packets until its timer expires */
        ngx_quic_post_push(qc);
        return;
    }

    if (qc->update.posted) {
        ngx_delete_posted_event(&qc->update);
    }

    if (qc->push.posted) {
        ngx_delete_posted_event(&qc->push);
    }

    if (qc->push.timer_set) {
        ngx_del_timer(&qc->push);
    }

    if (qc->timer.timer_set) {
        ngx_del_timer(&qc->timer);
    }

    if (qc->close.posted) {
        ngx_delete_posted_event(&qc->close);
    }

    if (qc->close.timer_set) {
        ngx_del_timer(&qc->close);
    }

    ngx_quic_handshake_ends(qc);
    ngx_quic_status_close(c);
    ngx_quic_close_cids(c);
    ngx_quic_free_pending(qc);

    /* with it goes the SSL object */

    ngx_ssl_ocsp_cleanup(c);
    c->ssl = NULL;

    if (ngx_quic_conn_has_panicked(qc->conn)) {
        ngx_log_error(NGX_LOG_ALERT, c->log, 0,
                      "quic transport panicked, connection given up");
    }

    ngx_quic_close_returning(qc);

    quiche_conn_free(qc->conn);
    qc->conn = NULL;

    c->udp = NULL;

    ngx_log_debug0(NGX_LOG_DEBUG_EVENT, c->log, 0, "quic close completed");

quic_done:

    if (c->read->timer_set) {
        ngx_del_timer(c->read);
    }

#if (NGX_STAT_STUB)
    (void) ngx_atomic_fetch_add(ngx_stat_active, -1);
#endif

    c->destroyed = 1;

    pool = c->pool;

    ngx_close_connection(c);

    ngx_destroy_pool(pool);
}


static void
ngx_quic_log_end(ngx_connection_t *c)
{
    bool                    is_app;
    size_t                  len;
    uint64_t                code;
    const uint8_t          *reason;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    if (qc->closing) {
        return;
    }

    if (quiche_conn_peer_error(qc->conn, &is_app, &code, &reason, &len)) {
        ngx_log_debug4(NGX_LOG_DEBUG_EVENT, c->log, 0,
                       "quic closed by client, %serror:%uL \"%*s\"",
                       is_app ? "app " : "", code, len, reason);

    } else if (quiche_conn_local_error(qc->conn, &is_app, &code, &reason,
                                       &len))
    {
        ngx_log_error(NGX_LOG_INFO, c->log, 0,
                      "quic connection closed, %serror:%uL",
                      is_app ? "app " : "", code);

    } else if (quiche_conn_is_timed_out(qc->conn)) {
        ngx_log_error(NGX_LOG_INFO, c->log, NGX_ETIMEDOUT,
                      "quic client timed out");
    }
}
