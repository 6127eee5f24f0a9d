
/*
 * Copyright (C) Nginx, Inc.
 * Copyright (C) 2026, the mpq authors
 *
 * What paths and connection IDs come to: the end of the handshake, a client
 * that moves, IDs that it has retired.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_quic_connection.h>


static void ngx_quic_update_address(ngx_connection_t *c);
static void ngx_quic_set_address(ngx_connection_t *c,
    struct sockaddr_storage *sa, socklen_t len);


ngx_int_t
ngx_quic_update_paths(ngx_connection_t *c)
{
    ngx_int_t                rc;
    socklen_t                local_len, peer_len;
    ngx_uint_t               changed;
    quiche_path_event       *ev;
    ngx_quic_connection_t   *qc;
    struct sockaddr_storage  local, peer;

    qc = ngx_quic_get_connection(c);

    changed = 0;

    if (!qc->established && quiche_conn_is_established(qc->conn)) {
        qc->established = 1;
        c->ssl->handshaked = 1;
        changed = 1;
        ngx_quic_status->established++;
        ngx_quic_handshake_ends(qc);

#if (NGX_DEBUG)
        ngx_ssl_handshake_log(c);
#endif

        ngx_quic_forget_initial_cid(c);

        if (ngx_quic_send_new_token(c, c->sockaddr, c->socklen) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (!qc->established) {
        return NGX_OK;
    }

    for ( ;; ) {
        ev = quiche_conn_path_event_next(qc->conn);
        if (ev == NULL) {
            break;
        }

        ngx_log_debug1(NGX_LOG_DEBUG_EVENT, c->log, 0, "quic path event:%d",
                       (int) quiche_path_event_type(ev));

        rc = NGX_OK;

        ngx_quic_note_path(c, ev);
        ngx_quic_returning_event(c, ev);

        if (quiche_path_event_type(ev) == QUICHE_PATH_EVENT_PEER_MIGRATED) {
            /* RFC 9000, 9.3: a token for the new address */
            quiche_path_event_peer_migrated(ev, &local, &local_len,
                                            &peer, &peer_len);
            rc = ngx_quic_send_new_token(c, (struct sockaddr *) &peer,
                                         peer_len);
        }

        quiche_path_event_free(ev);

        if (rc != NGX_OK) {
            return NGX_ERROR;
        }

        changed = 1;
        qc->moved = 1;
    }

    if (qc->moved) {
        qc->moved = 0;
        ngx_quic_judge_paths(c);
        ngx_quic_update_address(c);
    }

    if (quiche_conn_retired_scids(qc->conn)) {
        ngx_quic_retire_cids(c);
        changed = 1;
    }

    if (changed) {
        ngx_quic_supply_cids(c);
    }

    ngx_quic_tell_returning(c);

    return NGX_OK;
}


/*
 * The client's address, for logs, limits and access rules of its next requests,
 * follows it. But who has shown nothing may have forged his address: until it
 * is validated, the one before stands for the client. With several paths the
 * address stays while there is a path from it.
 */

static void
ngx_quic_update_address(ngx_connection_t *c)
{
    size_t                  i;
    ngx_uint_t              found;
    struct sockaddr        *sa;
    quiche_path_stats       stats, best;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    found = 0;

    for (i = 0; quiche_conn_path_stats(qc->conn, i, &stats) == 0; i++) {

        if (!stats.active) {
            continue;
        }

        sa = (struct sockaddr *) &stats.peer_addr;

        if (ngx_cmp_sockaddr(sa, stats.peer_addr_len, c->sockaddr, c->socklen,
                             1)
            == NGX_OK)
        {
            return;
        }

        /* the port may change at once: it says nothing about who it is */

        if (stats.validation_state < NGX_QUIC_PATH_ADDRESS_VALIDATED
            && ngx_cmp_sockaddr(sa, stats.peer_addr_len, c->sockaddr,
                                c->socklen, 0)
               != NGX_OK)
        {
            continue;
        }

        if (!found || stats.path_id < best.path_id) {
            best = stats;
            found = 1;
        }
    }

    if (found) {
        ngx_quic_set_address(c, &best.peer_addr, best.peer_addr_len);
    }
}


static void
ngx_quic_set_address(ngx_connection_t *c, struct sockaddr_storage *sa,
    socklen_t len)
{
    ngx_memcpy(c->sockaddr, sa, len);
    c->socklen = len;

    if (c->addr_text.data) {
        c->addr_text.len = ngx_sock_ntop(c->sockaddr, c->socklen,
                                         c->addr_text.data,
                                         NGX_SOCKADDR_STRLEN, 0);
    }

    ngx_log_error(NGX_LOG_INFO, c->log, 0, "quic client migrated");
}
