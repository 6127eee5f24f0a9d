
/*
 * Copyright (C) 2026, the mpq authors
 *
 * What is going on. Each worker counts in a table of its own, in memory that
 * all workers of its generation share; nobody else writes there. The list of
 * connections in it is written once a second, if a status page asks for it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_quic_connection.h>


#define NGX_QUIC_STATUS_INTERVAL  1000   /* ms */


static void ngx_quic_free_status(void *data);
static void ngx_quic_status_handler(ngx_event_t *ev);
static void ngx_quic_update_status(void);
static void ngx_quic_add_path(ngx_quic_status_t *st, quiche_path_stats *stats);
static void ngx_quic_status_addr(struct sockaddr_storage *sa, socklen_t len,
    u_char *out);


ngx_quic_status_t          *ngx_quic_status;

static ngx_shm_t            ngx_quic_status_shm;
static ngx_uint_t           ngx_quic_status_enabled;
static ngx_uint_t           ngx_quic_status_n;      /* tables in shared memory */
static ngx_queue_t          ngx_quic_connections;
static ngx_event_t          ngx_quic_status_event;
static ngx_connection_t     ngx_quic_status_dummy;

/* octets of connections that are no more */
static uint64_t             ngx_quic_sent[NGX_QUIC_STATUS_PATHS];
static uint64_t             ngx_quic_received[NGX_QUIC_STATUS_PATHS];


void
ngx_quic_enable_status(void)
{
    ngx_quic_status_enabled = 1;
}


/* in the master */

ngx_int_t
ngx_quic_init_status_module(ngx_cycle_t *cycle)
{
    ngx_shm_t           *shm;
    ngx_core_conf_t     *ccf;
    ngx_pool_cleanup_t  *cln;

    if (ngx_test_config || !ngx_quic_status_enabled) {
        return NGX_OK;
    }

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    /* goes with the configuration; the workers have it mapped by then */

    cln = ngx_pool_cleanup_add(cycle->pool, sizeof(ngx_shm_t));
    if (cln == NULL) {
        return NGX_ERROR;
    }

    shm = cln->data;
    ngx_memzero(shm, sizeof(ngx_shm_t));

    shm->size = ccf->worker_processes * sizeof(ngx_quic_status_t);
    ngx_str_set(&shm->name, "nginx_quic_status");
    shm->log = cycle->log;

    if (ngx_shm_alloc(shm) != NGX_OK) {
        return NGX_ERROR;
    }

    cln->handler = ngx_quic_free_status;

    ngx_quic_status_shm = *shm;
    ngx_quic_status_n = ccf->worker_processes;

    return NGX_OK;
}


static void
ngx_quic_free_status(void *data)
{
    ngx_shm_t *shm = data;

    shm->log = ngx_cycle->log;
    ngx_shm_free(shm);
}


ngx_int_t
ngx_quic_init_status(ngx_cycle_t *cycle)
{
    ngx_event_t  *ev;

    ngx_queue_init(&ngx_quic_connections);

    if (ngx_quic_status_n == 0 || ngx_worker >= ngx_quic_status_n) {

        /* for nobody to see */

        ngx_quic_status = ngx_pcalloc(cycle->pool, sizeof(ngx_quic_status_t));

        return ngx_quic_status ? NGX_OK : NGX_ERROR;
    }

    ngx_quic_status = (ngx_quic_status_t *) ngx_quic_status_shm.addr
                      + ngx_worker;

    ngx_memzero(ngx_quic_status, sizeof(ngx_quic_status_t));
    ngx_quic_status->pid = ngx_pid;

    ngx_quic_status_dummy.fd = (ngx_socket_t) -1;

    ev = &ngx_quic_status_event;

    ngx_memzero(ev, sizeof(ngx_event_t));

    ev->handler = ngx_quic_status_handler;
    ev->data = &ngx_quic_status_dummy;
    ev->log = cycle->log;
    ev->cancelable = 1;

    ngx_add_timer(ev, NGX_QUIC_STATUS_INTERVAL);

    return NGX_OK;
}


static void
ngx_quic_status_handler(ngx_event_t *ev)
{
    ngx_quic_update_status();

    if (!ngx_exiting) {
        ngx_add_timer(ev, NGX_QUIC_STATUS_INTERVAL);
    }
}


static void
ngx_quic_update_status(void)
{
    size_t                  i, len;
    ngx_uint_t              n;
    ngx_queue_t            *q;
    ngx_quic_info_t        *info;
    ngx_connection_t       *c;
    quiche_path_stats       stats;
    ngx_quic_status_t      *st;
    ngx_quic_connection_t  *qc;

    st = ngx_quic_status;
    n = 0;

    st->multipath = 0;
    st->paths = 0;
    ngx_memcpy(st->sent, ngx_quic_sent, sizeof(ngx_quic_sent));
    ngx_memcpy(st->received, ngx_quic_received, sizeof(ngx_quic_received));

    for (q = ngx_queue_head(&ngx_quic_connections);
         q != ngx_queue_sentinel(&ngx_quic_connections);
         q = ngx_queue_next(q))
    {
        qc = ngx_queue_data(q, ngx_quic_connection_t, queue);
        c = qc->udp.connection;

        st->multipath += quiche_conn_is_multipath(qc->conn);

        for (i = 0; quiche_conn_path_stats(qc->conn, i, &stats) == 0; i++) {
            ngx_quic_add_path(st, &stats);
            st->paths += stats.active;
        }

        if (n == NGX_QUIC_STATUS_CONNECTIONS) {
            continue;
        }

        info = &st->list[n++];

        info->number = c->number;
        info->age = ngx_current_msec - c->start_time;
        info->multipath = quiche_conn_is_multipath(qc->conn);
        info->npaths = ngx_quic_get_paths(c, info->paths,
                                          NGX_QUIC_STATUS_PATHS);

        len = ngx_min(qc->conf->congestion_control.len + 1,
                      sizeof(info->congestion_control));
        (void) ngx_cpystrn(info->congestion_control,
                           qc->conf->congestion_control.data, len);

        len = ngx_min(qc->conf->scheduler.len + 1, sizeof(info->scheduler));
        (void) ngx_cpystrn(info->scheduler, qc->conf->scheduler.data, len);
    }

    st->nconnections = n;
    st->updated = ngx_current_msec;
}


static void
ngx_quic_add_path(ngx_quic_status_t *st, quiche_path_stats *stats)
{
    ngx_uint_t  n;

    /* the last place is for all others */

    n = ngx_min(stats->path_id, NGX_QUIC_STATUS_PATHS - 1);

    st->sent[n] += stats->sent_bytes;
    st->received[n] += stats->recv_bytes;
}


void
ngx_quic_status_open(ngx_connection_t *c)
{
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    ngx_queue_insert_tail(&ngx_quic_connections, &qc->queue);

    ngx_quic_status->accepted++;
    ngx_quic_status->connections++;
}


void
ngx_quic_status_close(ngx_connection_t *c)
{
    size_t                  i;
    ngx_uint_t              n;
    quiche_path_stats       stats;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    ngx_queue_remove(&qc->queue);

    ngx_quic_status->connections--;

    if (ngx_quic_status_n == 0) {
        return;
    }

    for (i = 0; quiche_conn_path_stats(qc->conn, i, &stats) == 0; i++) {
        n = ngx_min(stats.path_id, NGX_QUIC_STATUS_PATHS - 1);

        ngx_quic_sent[n] += stats.sent_bytes;
        ngx_quic_received[n] += stats.recv_bytes;
    }
}


ngx_quic_status_t *
ngx_quic_get_status(ngx_uint_t worker)
{
    ngx_quic_status_t  *st;

    if (worker >= ngx_quic_status_n) {
        return NULL;
    }

    st = (ngx_quic_status_t *) ngx_quic_status_shm.addr + worker;

    if (st == ngx_quic_status) {
        ngx_quic_update_status();
    }

    return st;
}


ngx_quic_conf_t *
ngx_quic_get_conf(ngx_connection_t *c)
{
    return ngx_quic_get_connection(c->quic ? c->quic->parent : c)->conf;
}


ngx_uint_t
ngx_quic_is_multipath(ngx_connection_t *c)
{
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c->quic ? c->quic->parent : c);

    return quiche_conn_is_multipath(qc->conn);
}


ngx_uint_t
ngx_quic_get_paths(ngx_connection_t *c, ngx_quic_path_info_t *paths,
    ngx_uint_t max)
{
    size_t                  i;
    ngx_uint_t              n;
    quiche_path_stats       stats;
    ngx_quic_path_info_t   *path;
    ngx_quic_connection_t  *qc;

    static const char  *statuses[] = { "available", "backup" };
    static const char  *healths[] = { "healthy", "suspect", "failed",
                                      "recovering" };

    qc = ngx_quic_get_connection(c->quic ? c->quic->parent : c);

    n = 0;

    for (i = 0;
         n < max && quiche_conn_path_stats(qc->conn, i, &stats) == 0;
         i++)
    {
        path = &paths[n++];

        path->id = stats.path_id;
        path->sent = stats.sent_bytes;
        path->received = stats.recv_bytes;
        path->lost = stats.lost_bytes;
        path->rtt = stats.rtt / 1000;
        path->window = stats.cwnd;
        path->status = statuses[stats.peer_status == QUICHE_PATH_STATUS_BACKUP];
        path->health = healths[stats.health & 3];

        ngx_quic_status_addr(&stats.local_addr, stats.local_addr_len,
                             path->local);
        ngx_quic_status_addr(&stats.peer_addr, stats.peer_addr_len, path->peer);
    }

    return n;
}


static void
ngx_quic_status_addr(struct sockaddr_storage *sa, socklen_t len, u_char *out)
{
    size_t  n;

    n = ngx_sock_ntop((struct sockaddr *) sa, len, out, NGX_SOCKADDR_STRLEN, 1);
    out[n] = '\0';
}
