
/*
 * Copyright (C) 2026, the mpq authors
 *
 * Clients that come back (quic_careful_resume): what was seen of their paths is
 * in a token that they keep, and the next time a path with the same addresses
 * begins with half of the window that it had (RFC 9959). What is in tokens, and
 * when there is something new to tell, is tools/returning's business.
 *
 * The table that keeps two connections from beginning with the same is the
 * master's, and all its workers': it outlives reloads, but no upgrade.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_quic_connection.h>


static ngx_quic_keeper_t *ngx_quic_get_keeper(ngx_quic_conf_t *conf,
    ngx_log_t *log);
static void ngx_quic_free_keeper(void *data);
static void ngx_quic_begin_path(ngx_connection_t *c, uint64_t path_id,
    struct sockaddr *peer, struct sockaddr *local);
static void ngx_quic_mapped_address(struct sockaddr *sa, u_char *out);


static uint64_t  *ngx_quic_returning_table;


/* in the master */

ngx_int_t
ngx_quic_init_returning(ngx_cycle_t *cycle)
{
    void    *p;
    size_t   size;

    if (ngx_quic_returning_table) {
        return NGX_OK;
    }

    if (ngx_quic_keeper_sizes[0] != NGX_QUIC_RETURNING_TOKEN_SIZE) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                      "quic was built with tokens of another size");
        return NGX_ERROR;
    }

    /* no memory is taken for what is never touched */

    size = ngx_quic_keeper_sizes[1] * sizeof(uint64_t);

    p = mmap(NULL, size, PROT_READ|PROT_WRITE, MAP_SHARED|MAP_ANON, -1, 0);
    if (p == MAP_FAILED) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, ngx_errno,
                      "mmap(MAP_SHARED, %uz) failed", size);
        return NGX_ERROR;
    }

    ngx_quic_returning_table = p;

    return NGX_OK;
}


ngx_uint_t
ngx_quic_check_careful_resume(ngx_str_t *congestion_control)
{
    return ngx_quic_can_resume((char *) congestion_control->data);
}


/* of a worker, made when its first client arrives */

static ngx_quic_keeper_t *
ngx_quic_get_keeper(ngx_quic_conf_t *conf, ngx_log_t *log)
{
    u_char              *key;
    ngx_pool_cleanup_t  *cln;

    if (conf->keeper || conf->careful_resume == 0) {
        return conf->keeper;
    }

    cln = ngx_pool_cleanup_add(ngx_cycle->pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    /* without quic_host_key, one that outlives a reload, as the table does */

    key = conf->random_host_key ? ngx_quic_retry_key : conf->av_token_key;

    conf->keeper = ngx_quic_keeper_new(key, ngx_quic_returning_table,
                                       conf->careful_resume);
    if (conf->keeper == NULL) {
        ngx_log_error(NGX_LOG_ALERT, log, 0, "quic cannot make tokens");
        return NULL;
    }

    cln->handler = ngx_quic_free_keeper;
    cln->data = conf;

    return conf->keeper;
}


static void
ngx_quic_free_keeper(void *data)
{
    ngx_quic_conf_t *conf = data;

    ngx_quic_keeper_free(conf->keeper);
    conf->keeper = NULL;
}


/* as ngx_quic_validate_token(), for tokens of this length */

ngx_int_t
ngx_quic_validate_returning(ngx_connection_t *c, ngx_quic_conf_t *conf,
    ngx_quic_header_t *pkt)
{
    int                 rc;
    ngx_quic_keeper_t  *keeper;

    u_char              peer[16];

    keeper = ngx_quic_get_keeper(conf, c->log);
    if (keeper == NULL) {
        return NGX_DECLINED;
    }

    ngx_quic_mapped_address(c->sockaddr, peer);

    rc = ngx_quic_keeper_judge(keeper, pkt->token.data, pkt->token.len, peer);

    if (rc == -1) {
        ngx_log_error(NGX_LOG_INFO, c->log, 0, "quic garbage token");
        ngx_quic_status->resume_garbage++;
        return NGX_DECLINED;
    }

    if (rc == 0) {
        ngx_log_error(NGX_LOG_INFO, c->log, 0,
                      "quic token is of another client, or expired");
        return NGX_DECLINED;
    }

    pkt->validated = 1;

    return NGX_OK;
}


ngx_int_t
ngx_quic_create_returning(ngx_connection_t *c, ngx_quic_header_t *pkt)
{
    size_t                  len;
    ngx_quic_keeper_t      *keeper;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    keeper = ngx_quic_get_keeper(qc->conf, c->log);
    if (keeper == NULL) {
        return NGX_OK;
    }

    len = (pkt->token.len == NGX_QUIC_RETURNING_TOKEN_SIZE) ? pkt->token.len
                                                            : 0;

    qc->returning = ngx_quic_returning_new(keeper, pkt->token.data, len);
    if (qc->returning == NULL) {
        return NGX_ERROR;
    }

    ngx_quic_begin_path(c, 0, c->sockaddr, c->local_sockaddr);

    return NGX_OK;
}


void
ngx_quic_close_returning(ngx_quic_connection_t *qc)
{
    ngx_quic_returning_free(qc->returning);
    qc->returning = NULL;
}


void
ngx_quic_returning_event(ngx_connection_t *c, quiche_path_event *ev)
{
    uint64_t                 id;
    socklen_t                local_len, peer_len;
    ngx_quic_connection_t   *qc;
    struct sockaddr_storage  local, peer;

    qc = ngx_quic_get_connection(c);

    if (qc->returning == NULL) {
        return;
    }

    switch (quiche_path_event_type(ev)) {

    case QUICHE_PATH_EVENT_OPENED:
        quiche_path_event_opened(ev, &id, &local, &local_len, &peer,
                                 &peer_len);
        ngx_quic_begin_path(c, id, (struct sockaddr *) &peer,
                            (struct sockaddr *) &local);
        break;

    case QUICHE_PATH_EVENT_AVAILABLE:
        ngx_quic_returning_path_validated(qc->returning);
        break;

    default:
        break;
    }
}


static void
ngx_quic_begin_path(ngx_connection_t *c, uint64_t path_id,
    struct sockaddr *peer, struct sockaddr *local)
{
    int                     rc;
    ngx_quic_connection_t  *qc;

    u_char                  from[16], to[16];

    qc = ngx_quic_get_connection(c);

    ngx_quic_mapped_address(peer, from);
    ngx_quic_mapped_address(local, to);

    rc = ngx_quic_returning_begin_path(qc->returning, qc->conf->keeper,
                                       qc->conn, path_id, from, to);
    switch (rc) {

    case NGX_QUIC_RESUME_DONE:
        ngx_quic_status->resumed++;
        break;

    case NGX_QUIC_RESUME_UNKNOWN:
        ngx_quic_status->resume_unknown++;
        break;

    case NGX_QUIC_RESUME_EXPIRED:
        ngx_quic_status->resume_expired++;
        break;

    case NGX_QUIC_RESUME_USED:
        ngx_quic_status->resume_used++;
        break;

    default:
        return;
    }

    ngx_log_error(NGX_LOG_INFO, c->log, 0, "quic path %uL %s", path_id,
                  rc == NGX_QUIC_RESUME_DONE ? "resumes"
                  : rc == NGX_QUIC_RESUME_UNKNOWN ? "begins anew: unknown"
                  : rc == NGX_QUIC_RESUME_EXPIRED ? "begins anew: expired"
                  : "begins anew: used");
}


/* tells the client what is known of its paths, if that is news */

void
ngx_quic_tell_returning(ngx_connection_t *c)
{
    int                     paths;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    if (qc->returning == NULL) {
        return;
    }

    paths = ngx_quic_returning_tell(qc->returning, qc->conf->keeper, qc->conn,
                                    ngx_quic_wants_retry(qc->conf));
    if (paths < 0) {
        return;
    }

    ngx_quic_status->resume_tokens++;

    ngx_log_error(NGX_LOG_INFO, c->log, 0,
                  "quic token sent, windows of %d paths in it", paths);
}


static void
ngx_quic_mapped_address(struct sockaddr *sa, u_char *out)
{
    struct sockaddr_in   *sin;
#if (NGX_HAVE_INET6)
    struct sockaddr_in6  *sin6;

    if (sa->sa_family == AF_INET6) {
        sin6 = (struct sockaddr_in6 *) sa;
        ngx_memcpy(out, sin6->sin6_addr.s6_addr, 16);
        return;
    }
#endif

    ngx_memzero(out, 16);
    out[10] = 0xff;
    out[11] = 0xff;

    if (sa->sa_family == AF_INET) {
        sin = (struct sockaddr_in *) sa;
        ngx_memcpy(&out[12], &sin->sin_addr, 4);
    }
}
