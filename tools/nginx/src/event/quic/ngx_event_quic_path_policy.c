
/*
 * Copyright (C) 2026, the mpq authors
 *
 * What the server has to say about a client's paths: quic_path, and why a client
 * has only one.  Clients open paths (RFC 10069, 3.1); a server may let them
 * stand by or abandon them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_quic_connection.h>


/* RFC 10069, 4.4: APPLICATION_ABANDON_PATH */
#define NGX_QUIC_APPLICATION_ABANDON_PATH  0x3e


static ngx_uint_t ngx_quic_match_path(ngx_quic_conf_t *conf,
    struct sockaddr *sa);


/* keeps what may become the reason that there is no second path */

void
ngx_quic_note_path(ngx_connection_t *c, quiche_path_event *ev)
{
    bool                    by_peer;
    uint64_t                id, code;
    socklen_t               local_len, peer_len;
    ngx_quic_no_path_t     *no;
    ngx_quic_connection_t  *qc;
    struct sockaddr_storage  local, peer;

    qc = ngx_quic_get_connection(c);
    no = &qc->no_path;

    switch (quiche_path_event_type(ev)) {

    case QUICHE_PATH_EVENT_AVAILABLE:
        quiche_path_event_available(ev, &id, &local, &local_len, &peer,
                                    &peer_len);
        if (id > 0) {
            no->why = NGX_QUIC_NO_PATH_NONE;
        }

        break;

    case QUICHE_PATH_EVENT_FAILED_VALIDATION:
        quiche_path_event_failed_validation(ev, &local, &local_len, &peer,
                                            &peer_len);
        no->why = NGX_QUIC_NO_PATH_UNANSWERED;
        ngx_quic_status_addr(&peer, peer_len, no->peer);
        break;

    case QUICHE_PATH_EVENT_ABANDONED:
        quiche_path_event_abandoned(ev, &id, &code, &by_peer);

        if (by_peer) {
            no->why = NGX_QUIC_NO_PATH_ABANDONED;
            no->id = id;
            no->code = code;

        } else if (no->why == NGX_QUIC_NO_PATH_NONE) {
            no->why = NGX_QUIC_NO_PATH_FAILED;
            no->id = id;
            no->code = code;
        }

        break;

    default:
        break;
    }
}


/*
 * Applies quic_path to the paths there are.  Doing it twice changes nothing: it
 * is called when a path came or moved.
 */

void
ngx_quic_judge_paths(ngx_connection_t *c)
{
    size_t                  i;
    ngx_uint_t              use;
    struct sockaddr        *sa;
    quiche_path_stats       stats;
    ngx_quic_connection_t  *qc;
    enum quiche_path_status  status;

    qc = ngx_quic_get_connection(c);

    if (qc->conf->path_rules == NULL || !quiche_conn_is_multipath(qc->conn)) {
        return;
    }

    for (i = 0; quiche_conn_path_stats(qc->conn, i, &stats) == 0; i++) {

        /* whoever forged the address must not end the path of somebody else */

        if (!stats.active
            || stats.validation_state < NGX_QUIC_PATH_ADDRESS_VALIDATED)
        {
            continue;
        }

        sa = (struct sockaddr *) &stats.peer_addr;
        use = ngx_quic_match_path(qc->conf, sa);

        /* the last path cannot be abandoned, and what it carries goes on */

        if (use == NGX_QUIC_PATH_REFUSE
            && quiche_conn_abandon_path(qc->conn, stats.path_id,
                                        NGX_QUIC_APPLICATION_ABANDON_PATH)
               == 0)
        {
            qc->no_path.why = NGX_QUIC_NO_PATH_REFUSED;
            ngx_quic_status_addr(&stats.peer_addr, stats.peer_addr_len,
                                 qc->no_path.peer);
            ngx_quic_status->paths_refused++;

            ngx_log_error(NGX_LOG_INFO, c->log, 0,
                          "quic path %uL from %s refused by \"quic_path\"",
                          stats.path_id, qc->no_path.peer);
            continue;
        }

        status = (use == NGX_QUIC_PATH_USE) ? QUICHE_PATH_STATUS_AVAILABLE
                                            : QUICHE_PATH_STATUS_BACKUP;

        if (stats.status != status) {
            (void) quiche_conn_set_path_status(qc->conn, stats.path_id,
                                               status);
        }
    }
}


/* as with "allow" and "deny", the first that matches */

static ngx_uint_t
ngx_quic_match_path(ngx_quic_conf_t *conf, struct sockaddr *sa)
{
    ngx_uint_t             i;
    ngx_array_t            one;
    ngx_quic_path_rule_t  *rule;

    rule = conf->path_rules->elts;

    for (i = 0; i < conf->path_rules->nelts; i++) {

        if (rule[i].all) {
            return rule[i].use;
        }

        one.elts = &rule[i].cidr;
        one.nelts = 1;

        if (ngx_cidr_match(sa, &one) == NGX_OK) {
            return rule[i].use;
        }
    }

    return NGX_QUIC_PATH_USE;
}


/* the reason that a connection has one path, in words; "" if it has several */

void
ngx_quic_why_one_path(ngx_connection_t *c, u_char *out, size_t size)
{
    size_t                  i;
    u_char                 *p, *last;
    ngx_uint_t              n;
    quiche_path_stats       stats;
    ngx_quic_no_path_t     *no;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);
    no = &qc->no_path;

    n = 0;
    for (i = 0; quiche_conn_path_stats(qc->conn, i, &stats) == 0; i++) {
        n += stats.active;
    }

    p = out;
    last = out + size - 1;

    if (n > 1) {
        *p = '\0';
        return;
    }

    if (!qc->conf->multipath) {
        p = ngx_slprintf(p, last, "quic_multipath is off");

    } else if (!qc->established) {
        p = ngx_slprintf(p, last, "the handshake is under way");

    } else if (!quiche_conn_is_multipath(qc->conn)) {
        p = ngx_slprintf(p, last, "the client does not do multipath");

    } else if (qc->conf->max_paths == 1) {
        p = ngx_slprintf(p, last, "quic_max_paths allows one");

    } else {

        switch (no->why) {

        case NGX_QUIC_NO_PATH_REFUSED:
            p = ngx_slprintf(p, last, "quic_path refused the one from %s",
                             no->peer);
            break;

        case NGX_QUIC_NO_PATH_UNANSWERED:
            p = ngx_slprintf(p, last, "nothing came back from %s", no->peer);
            break;

        case NGX_QUIC_NO_PATH_ABANDONED:
            p = ngx_slprintf(p, last,
                             "the client abandoned path %uL (error 0x%xL)",
                             no->id, no->code);
            break;

        case NGX_QUIC_NO_PATH_FAILED:
            p = ngx_slprintf(p, last,
                             "path %uL did not work any more (error 0x%xL)",
                             no->id, no->code);
            break;

        default:
            p = ngx_slprintf(p, last, "the client opened no other");
        }
    }

    *p = '\0';
}
