
/*
 * Copyright (C) 2026, the mpq authors
 *
 * What is going on. Each worker counts in a table of its own; if a status page
 * asks for it, the table is a file in the directory where workers meet, mapped
 * into the worker's memory. Whoever shows the page reads the files, so it sees
 * workers of all generations and binaries. Nobody else writes to a table. The
 * list of connections in it is written once a second.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_quic_connection.h>
#if (NGX_QUIC_HEAP)
#include <malloc.h>
#endif


#define NGX_QUIC_STATUS_INTERVAL  1000   /* ms */


static ngx_int_t ngx_quic_map_status(ngx_log_t *log);
static void ngx_quic_status_handler(ngx_event_t *ev);
static void ngx_quic_update_status(void);
static void ngx_quic_add_path(ngx_quic_status_t *st, quiche_path_stats *stats);
static ngx_int_t ngx_quic_read_status(ngx_pool_t *pool, char *name,
    ngx_uint_t lists, ngx_quic_worker_status_t *ws);
static int ngx_libc_cdecl ngx_quic_cmp_status(const void *one,
    const void *two);


ngx_quic_status_t          *ngx_quic_status;

static ngx_uint_t           ngx_quic_status_enabled;
static ngx_uint_t           ngx_quic_status_mapped;
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


ngx_int_t
ngx_quic_init_status(ngx_cycle_t *cycle)
{
    ngx_event_t  *ev;

    ngx_queue_init(&ngx_quic_connections);

    if (!ngx_quic_status_enabled
        || ngx_quic_handover_dir.len == 0
        || ngx_quic_map_status(cycle->log) != NGX_OK)
    {
        /* for nobody to see */

        ngx_quic_status = ngx_pcalloc(cycle->pool, sizeof(ngx_quic_status_t));

        return ngx_quic_status ? NGX_OK : NGX_ERROR;
    }

    ngx_quic_status->size = sizeof(ngx_quic_status_t);
    ngx_quic_status->pid = ngx_pid;
    ngx_quic_status->worker = ngx_worker;
    ngx_quic_status->generation = ngx_quic_generation;
    ngx_quic_status->version = NGX_QUIC_STATUS_VERSION;

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
ngx_quic_status_name(u_char *name, size_t size)
{
    (void) ngx_snprintf(name, size, "%V/%06xD.status%Z", &ngx_quic_handover_dir,
                        ngx_quic_process);
}


static ngx_int_t
ngx_quic_map_status(ngx_log_t *log)
{
    void       *p;
    ngx_fd_t    fd;
    ngx_err_t   err;

    u_char      name[NGX_QUIC_HANDOVER_PATH_LEN + sizeof("/012345.status")];

    ngx_quic_status_name(name, sizeof(name));

    /* a process that was killed may have left one */
    (void) unlink((char *) name);

    fd = open((char *) name, O_RDWR|O_CREAT|O_EXCL|O_NOFOLLOW|O_CLOEXEC, 0600);

    if (fd == NGX_INVALID_FILE) {
        ngx_log_error(NGX_LOG_ERR, log, ngx_errno,
                      ngx_open_file_n " \"%s\" failed", name);
        return NGX_ERROR;
    }

    /* a full disk must be known now, not when the table is written to */

    p = MAP_FAILED;
    err = posix_fallocate(fd, 0, sizeof(ngx_quic_status_t));

    if (err == 0) {
        p = mmap(NULL, sizeof(ngx_quic_status_t), PROT_READ|PROT_WRITE,
                 MAP_SHARED, fd, 0);
        err = ngx_errno;
    }

    (void) close(fd);

    if (p == MAP_FAILED) {
        ngx_log_error(NGX_LOG_ERR, log, err, "quic cannot use \"%s\"", name);
        (void) unlink((char *) name);
        return NGX_ERROR;
    }

    ngx_quic_status = p;
    ngx_quic_status_mapped = 1;

    return NGX_OK;
}


/* at exit */

void
ngx_quic_close_status(void)
{
    u_char  name[NGX_QUIC_HANDOVER_PATH_LEN + sizeof("/012345.status")];

    if (ngx_quic_status_mapped) {
        ngx_quic_status_name(name, sizeof(name));
        (void) unlink((char *) name);
    }
}


static void
ngx_quic_status_handler(ngx_event_t *ev)
{
    ngx_quic_update_status();

    ngx_add_timer(ev, NGX_QUIC_STATUS_INTERVAL);
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
#if (NGX_QUIC_HEAP)
    struct mallinfo2        heap;
#endif

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
        ngx_quic_why_one_path(c, info->why_one_path, NGX_QUIC_STATUS_WHY);

        info->nreports = qc->nreports;
        info->playback_age = ngx_current_msec - qc->playback_time;
        info->playback = qc->playback;

        len = ngx_min(qc->conf->congestion_control.len + 1,
                      sizeof(info->congestion_control));
        (void) ngx_cpystrn(info->congestion_control,
                           qc->conf->congestion_control.data, len);

        len = ngx_min(qc->conf->scheduler.len + 1, sizeof(info->scheduler));
        (void) ngx_cpystrn(info->scheduler, qc->conf->scheduler.data, len);
    }

    if (ngx_quic_send_budget) {
        st->send_budget = quiche_send_budget_size(ngx_quic_send_budget);
        st->send_held = quiche_send_budget_held(ngx_quic_send_budget);
        st->send_holders = quiche_send_budget_holders(ngx_quic_send_budget);
    }

#if (NGX_QUIC_HEAP)
    heap = mallinfo2();
    st->heap = heap.uordblks + heap.hblkhd - ngx_quic_freed_bytes();
#endif

    st->nconnections = n;
    st->draining = ngx_exiting || ngx_terminate;
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

    if (!ngx_quic_status_mapped) {
        return;
    }

    for (i = 0; quiche_conn_path_stats(qc->conn, i, &stats) == 0; i++) {
        n = ngx_min(stats.path_id, NGX_QUIC_STATUS_PATHS - 1);

        ngx_quic_sent[n] += stats.sent_bytes;
        ngx_quic_received[n] += stats.recv_bytes;
    }
}


ngx_array_t *
ngx_quic_get_status(ngx_pool_t *pool, ngx_uint_t lists)
{
    DIR                       *dir;
    size_t                     len;
    ngx_int_t                  rc;
    ngx_array_t               *all;
    struct dirent             *de;
    ngx_quic_worker_status_t   ws, *p;

    u_char                     name[NGX_QUIC_HANDOVER_PATH_LEN
                                    + sizeof("/012345.status")];

    all = ngx_array_create(pool, 8, sizeof(ngx_quic_worker_status_t));
    if (all == NULL || !ngx_quic_status_mapped) {
        return all;
    }

    ngx_quic_update_status();

    dir = opendir((char *) ngx_quic_handover_dir.data);
    if (dir == NULL) {
        ngx_log_error(NGX_LOG_ERR, pool->log, ngx_errno,
                      ngx_open_dir_n " \"%V\" failed", &ngx_quic_handover_dir);
        return all;
    }

    while ((de = readdir(dir)) != NULL) {

        len = ngx_strlen(de->d_name);

        if (len != sizeof("012345.status") - 1
            || ngx_strcmp(&de->d_name[6], ".status") != 0)
        {
            continue;
        }

        (void) ngx_snprintf(name, sizeof(name), "%V/%s%Z",
                            &ngx_quic_handover_dir, de->d_name);

        rc = ngx_quic_read_status(pool, (char *) name, lists, &ws);

        if (rc == NGX_DECLINED) {
            continue;
        }

        p = (rc == NGX_OK) ? ngx_array_push(all) : NULL;

        if (p == NULL) {
            (void) closedir(dir);
            return NULL;
        }

        *p = ws;
    }

    (void) closedir(dir);

    ngx_qsort(all->elts, all->nelts, sizeof(ngx_quic_worker_status_t),
              ngx_quic_cmp_status);

    return all;
}


/* NGX_DECLINED: not a table of a worker that lives */

static ngx_int_t
ngx_quic_read_status(ngx_pool_t *pool, char *name, ngx_uint_t lists,
    ngx_quic_worker_status_t *ws)
{
    size_t              size;
    ssize_t             n;
    ngx_fd_t            fd;
    ngx_int_t           rc;
    ngx_uint_t          i, k;
    ngx_quic_info_t    *info;
    ngx_quic_status_t  *st;

    fd = open(name, O_RDONLY|O_NOFOLLOW|O_CLOEXEC);

    if (fd == NGX_INVALID_FILE) {
        return NGX_DECLINED;
    }

    rc = NGX_ERROR;

    size = offsetof(ngx_quic_status_t, list);

    st = ngx_palloc(pool, size);
    if (st == NULL) {
        goto done;
    }

    rc = NGX_DECLINED;

    if (pread(fd, st, size, 0) != (ssize_t) size
        || st->version != NGX_QUIC_STATUS_VERSION
        || st->size != sizeof(ngx_quic_status_t)
        || (kill(st->pid, 0) == -1 && ngx_errno == NGX_ESRCH))
    {
        goto done;
    }

    ws->status = st;
    ws->list = NULL;
    ws->nlist = 0;

    rc = NGX_OK;

    if (!lists || st->nconnections == 0) {
        goto done;
    }

    size = ngx_min(st->nconnections, NGX_QUIC_STATUS_CONNECTIONS)
           * sizeof(ngx_quic_info_t);

    ws->list = ngx_palloc(pool, size);
    if (ws->list == NULL) {
        rc = NGX_ERROR;
        goto done;
    }

    n = pread(fd, ws->list, size, offsetof(ngx_quic_status_t, list));

    if (n > 0) {
        ws->nlist = n / sizeof(ngx_quic_info_t);
    }

    /* it may just be written to */

    for (i = 0; i < ws->nlist; i++) {
        info = &ws->list[i];

        info->npaths = ngx_min(info->npaths, NGX_QUIC_STATUS_PATHS);
        info->congestion_control[sizeof(info->congestion_control) - 1] = '\0';
        info->scheduler[sizeof(info->scheduler) - 1] = '\0';
        info->why_one_path[NGX_QUIC_STATUS_WHY - 1] = '\0';

        for (k = 0; k < info->npaths; k++) {
            info->paths[k].local[NGX_SOCKADDR_STRLEN] = '\0';
            info->paths[k].peer[NGX_SOCKADDR_STRLEN] = '\0';
        }
    }

done:

    (void) close(fd);

    return rc;
}


static int ngx_libc_cdecl
ngx_quic_cmp_status(const void *one, const void *two)
{
    const ngx_quic_status_t  *a, *b;

    a = ((const ngx_quic_worker_status_t *) one)->status;
    b = ((const ngx_quic_worker_status_t *) two)->status;

    if (a->worker != b->worker) {
        return a->worker < b->worker ? -1 : 1;
    }

    if (a->generation != b->generation) {
        return a->generation < b->generation ? -1 : 1;
    }

    return (a->pid < b->pid) ? -1 : (a->pid > b->pid);
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
        path->bottleneck = stats.bottleneck;
        path->status = (stats.peer_status == QUICHE_PATH_STATUS_BACKUP)
                       ? NGX_QUIC_STATUS_BACKUP : NGX_QUIC_STATUS_AVAILABLE;
        path->our_status = (stats.status == QUICHE_PATH_STATUS_BACKUP)
                           ? NGX_QUIC_STATUS_BACKUP
                           : NGX_QUIC_STATUS_AVAILABLE;
        path->health = stats.health & 3;

        ngx_quic_status_addr(&stats.local_addr, stats.local_addr_len,
                             path->local);
        ngx_quic_status_addr(&stats.peer_addr, stats.peer_addr_len, path->peer);
    }

    return n;
}


void
ngx_quic_status_addr(struct sockaddr_storage *sa, socklen_t len, u_char *out)
{
    size_t  n;

    n = ngx_sock_ntop((struct sockaddr *) sa, len, out, NGX_SOCKADDR_STRLEN, 1);
    out[n] = '\0';
}
