
/*
 * Copyright (C) 2026, the mpq authors
 *
 * Which workers there are, and whose a datagram is.
 *
 * The kernel spreads datagrams over workers by their 4-tuple, or by worker
 * number with "quic_bpf on". Neither finds the owner of a connection always: a
 * path begins with a new 4-tuple, an address may change, and while a reload or
 * an upgrade drains, two generations of workers read the same sockets. Every
 * connection ID leads to its worker process (ngx_event_quic_connid.c), and each
 * process listens on a Unix stream socket, named after it, for what others
 * received in its place (ngx_event_quic_handover.c).
 *
 * The sockets are in a directory that only the workers' user may enter. Next to
 * them is the file "state", which outlives workers, masters and binaries: the
 * keys that all must share, and where new clients go that reached a worker which
 * is about to exit.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <sys/un.h>
#include <ngx_event_quic_connection.h>


#define NGX_QUIC_STATE_MAGIC        0x6d707132
#define NGX_QUIC_MAX_WORKERS        (1 << (NGX_QUIC_ROUTE_BITS                 \
                                          - NGX_QUIC_ROUTE_SHIFT))

#define NGX_QUIC_HANDOVER_BACKLOG   4096


/* the file "state", shared by all processes */
typedef struct {
    uint32_t                      magic;
    uint32_t                      size;
    uint64_t                      generation;  /* of the newest configuration */
    u_char                        route_key[NGX_QUIC_ROUTE_KEY_LEN];
    u_char                        retry_key[NGX_QUIC_AV_KEY_LEN];

    /* by worker number: generation and process, or 0 */
    volatile uint32_t             nworkers;    /* the most there were */
    volatile uint64_t             workers[NGX_QUIC_MAX_WORKERS];
} ngx_quic_state_t;

#define ngx_quic_worker_entry(generation, process)                            \
    ((generation) << NGX_QUIC_ROUTE_BITS | (process))
#define ngx_quic_worker_process(entry)                                        \
    ((uint32_t) (entry) & NGX_QUIC_ROUTE_MASK)
#define ngx_quic_worker_generation(entry)  ((entry) >> NGX_QUIC_ROUTE_BITS)


static ngx_int_t ngx_quic_open_state(ngx_cycle_t *cycle, ngx_str_t *dir);
static ngx_int_t ngx_quic_bind_handover(ngx_socket_t s, ngx_log_t *log);
static ngx_int_t ngx_quic_is_alive(struct sockaddr_un *sun);
static void ngx_quic_sweep(ngx_log_t *log);


uint32_t                    ngx_quic_process;
uint64_t                    ngx_quic_generation;
ngx_str_t                   ngx_quic_handover_dir;

static ngx_quic_state_t    *ngx_quic_state;
static ngx_fd_t             ngx_quic_state_fd = NGX_INVALID_FILE;
static ngx_connection_t    *ngx_quic_handover;


/* in the master */

ngx_int_t
ngx_quic_init_workers_module(ngx_cycle_t *cycle)
{
    ngx_quic_main_conf_t  *qmcf;

    qmcf = (ngx_quic_main_conf_t *) ngx_get_conf(cycle->conf_ctx,
                                                 ngx_quic_module);

    if (qmcf->handover_path == NULL || ngx_test_config) {
        return NGX_OK;
    }

    if (ngx_quic_open_state(cycle, &qmcf->handover_path->name) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_quic_handover_dir = qmcf->handover_path->name;

    return NGX_OK;
}


/*
 * The directory is the workers' user's, so what is in it is looked at before it
 * is trusted: a regular file of the master's own user with one name.
 */

static ngx_int_t
ngx_quic_open_state(ngx_cycle_t *cycle, ngx_str_t *dir)
{
    ngx_fd_t           fd;
    ngx_err_t          err;
    ngx_uint_t         tries;
    struct stat        st;
    ngx_quic_state_t  *state;

    u_char             name[NGX_QUIC_HANDOVER_PATH_LEN + sizeof("/state")];

    (void) ngx_snprintf(name, sizeof(name), "%V/state%Z", dir);

    for (tries = 0; /* void */ ; tries++) {

        fd = open((char *) name, O_RDWR|O_CREAT|O_NOFOLLOW|O_NONBLOCK|O_CLOEXEC,
                  0600);
        err = ngx_errno;

        if (fd != -1
            && fstat(fd, &st) == 0
            && S_ISREG(st.st_mode)
            && st.st_uid == geteuid()
            && st.st_nlink == 1
            && (st.st_size == 0 || st.st_size == sizeof(ngx_quic_state_t)))
        {
            break;
        }

        if (fd != -1) {
            (void) close(fd);
        }

        /* of another user or binary */

        if (tries || unlink((char *) name) == -1) {
            ngx_log_error(NGX_LOG_EMERG, cycle->log, err,
                          "quic cannot use \"%s\"", name);
            return NGX_ERROR;
        }
    }

    err = ngx_lock_fd(fd);
    if (err) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, err,
                      ngx_lock_fd_n " \"%s\" failed", name);
        goto failed;
    }

    if (ftruncate(fd, sizeof(ngx_quic_state_t)) == -1) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, ngx_errno,
                      "ftruncate(\"%s\") failed", name);
        goto failed;
    }

    /* not a sparse file: what a full disk refuses later would kill workers */

    err = posix_fallocate(fd, 0, sizeof(ngx_quic_state_t));
    if (err) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, err,
                      "posix_fallocate(\"%s\") failed", name);
        goto failed;
    }

    state = mmap(NULL, sizeof(ngx_quic_state_t), PROT_READ|PROT_WRITE,
                 MAP_SHARED, fd, 0);
    if (state == MAP_FAILED) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, ngx_errno,
                      "mmap(\"%s\") failed", name);
        goto failed;
    }

    if (state->magic != NGX_QUIC_STATE_MAGIC
        || state->size != sizeof(ngx_quic_state_t))
    {
        ngx_memzero(state, sizeof(ngx_quic_state_t));

        if (RAND_bytes(state->route_key, NGX_QUIC_ROUTE_KEY_LEN) != 1
            || RAND_bytes(state->retry_key, NGX_QUIC_AV_KEY_LEN) != 1)
        {
            ngx_log_error(NGX_LOG_EMERG, cycle->log, 0, "RAND_bytes() failed");
            (void) munmap(state, sizeof(ngx_quic_state_t));
            goto failed;
        }

        if (ngx_quic_state) {
            /* the old file was removed, but its workers go on */

            ngx_memcpy(state->route_key, ngx_quic_state->route_key,
                       NGX_QUIC_ROUTE_KEY_LEN);
            ngx_memcpy(state->retry_key, ngx_quic_state->retry_key,
                       NGX_QUIC_AV_KEY_LEN);
            state->generation = ngx_quic_state->generation;
        }

        state->size = sizeof(ngx_quic_state_t);
        state->magic = NGX_QUIC_STATE_MAGIC;
    }

    ngx_quic_generation = ++state->generation;

    ngx_memcpy(ngx_quic_route_key, state->route_key, NGX_QUIC_ROUTE_KEY_LEN);
    ngx_memcpy(ngx_quic_retry_key, state->retry_key, NGX_QUIC_AV_KEY_LEN);

    (void) ngx_unlock_fd(fd);

    if (ngx_quic_state) {
        (void) munmap(ngx_quic_state, sizeof(ngx_quic_state_t));
        (void) close(ngx_quic_state_fd);
    }

    ngx_quic_state = state;
    ngx_quic_state_fd = fd;

    return NGX_OK;

failed:

    (void) close(fd);

    return NGX_ERROR;
}


ngx_int_t
ngx_quic_init_workers(ngx_cycle_t *cycle)
{
    ngx_err_t             err;
    ngx_int_t             rc;
    uint64_t              entry;
    ngx_uint_t            i, n;
    ngx_socket_t          s;
    ngx_listening_t      *ls;
    ngx_connection_t     *c;
    struct stat           st;

    ngx_quic_init_handover();

    ls = cycle->listening.elts;
    for (i = 0, n = 0; i < cycle->listening.nelts; i++) {
        n += ls[i].quic;
    }

    if (n == 0 || ngx_quic_state == NULL) {
        return NGX_OK;
    }

    if (lstat((char *) ngx_quic_handover_dir.data, &st) == -1
        || !S_ISDIR(st.st_mode)
        || st.st_uid != geteuid()
        || (st.st_mode & (S_IRWXG|S_IRWXO)))
    {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                      "quic handover directory \"%V\" is not the worker's own",
                      &ngx_quic_handover_dir);
        return NGX_ERROR;
    }

    s = socket(AF_UNIX, SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC, 0);
    if (s == (ngx_socket_t) -1) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, ngx_socket_errno,
                      ngx_socket_n " for quic handover failed");
        return NGX_ERROR;
    }

    /* between bind() and listen() a socket looks like one of the dead */

    err = ngx_lock_fd(ngx_quic_state_fd);
    if (err) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, err,
                      ngx_lock_fd_n " for quic handover failed");
        goto failed;
    }

    if (ngx_worker == 0) {
        ngx_quic_sweep(cycle->log);
    }

    rc = ngx_quic_bind_handover(s, cycle->log);

    if (rc == NGX_OK && ngx_worker < NGX_QUIC_MAX_WORKERS) {
        entry = ngx_quic_state->workers[ngx_worker];

        if (ngx_quic_worker_generation(entry) <= ngx_quic_generation) {
            ngx_quic_state->workers[ngx_worker] =
                ngx_quic_worker_entry(ngx_quic_generation,
                                      (uint64_t) ngx_quic_process);
        }

        if (ngx_quic_state->nworkers <= ngx_worker) {
            ngx_quic_state->nworkers = ngx_worker + 1;
        }
    }

    (void) ngx_unlock_fd(ngx_quic_state_fd);

    if (rc != NGX_OK) {
        goto failed;
    }

    c = ngx_get_connection(s, cycle->log);
    if (c == NULL) {
        goto failed;
    }

    c->log = cycle->log;
    c->read->log = cycle->log;
    c->write->log = cycle->log;
    c->read->handler = ngx_quic_handover_accept;
    c->read->channel = 1;

    if (ngx_add_event(c->read, NGX_READ_EVENT, 0) != NGX_OK) {
        ngx_free_connection(c);
        goto failed;
    }

    ngx_quic_handover = c;

    return NGX_OK;

failed:

    if (ngx_close_socket(s) == -1) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_socket_errno,
                      ngx_close_socket_n " for quic handover failed");
    }

    return NGX_ERROR;
}


/* under the lock: the worker's number, and what no other process has */

static ngx_int_t
ngx_quic_bind_handover(ngx_socket_t s, ngx_log_t *log)
{
    uint16_t            n;
    ngx_err_t           err;
    ngx_uint_t          tries;
    struct sockaddr_un  sun;

    for (tries = 0; tries < 65536; tries++) {

        if (RAND_bytes((u_char *) &n, sizeof(n)) != 1) {
            return NGX_ERROR;
        }

        ngx_quic_process = (uint32_t) (ngx_worker << NGX_QUIC_ROUTE_SHIFT
                                       | (n & ((1 << NGX_QUIC_ROUTE_SHIFT) - 1)))
                           & NGX_QUIC_ROUTE_MASK;

        ngx_quic_handover_name(&sun, ngx_quic_process);

        if (bind(s, (struct sockaddr *) &sun, sizeof(struct sockaddr_un)) == 0) {

            if (chmod(sun.sun_path, 0600) == -1
                || listen(s, NGX_QUIC_HANDOVER_BACKLOG) == -1)
            {
                ngx_log_error(NGX_LOG_EMERG, log, ngx_socket_errno,
                              "listen() on \"%s\" failed", sun.sun_path);
                (void) unlink(sun.sun_path);
                return NGX_ERROR;
            }

            return NGX_OK;
        }

        err = ngx_socket_errno;

        if (err != NGX_EADDRINUSE) {
            ngx_log_error(NGX_LOG_EMERG, log, err,
                          "bind() to \"%s\" failed", sun.sun_path);
            return NGX_ERROR;
        }

        if (!ngx_quic_is_alive(&sun)) {
            (void) unlink(sun.sun_path);
        }
    }

    ngx_log_error(NGX_LOG_EMERG, log, 0, "too many quic workers are draining");

    return NGX_ERROR;
}


static ngx_int_t
ngx_quic_is_alive(struct sockaddr_un *sun)
{
    int           rc;
    ngx_err_t     err;
    ngx_socket_t  s;

    s = socket(AF_UNIX, SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC, 0);
    if (s == (ngx_socket_t) -1) {
        return 1;
    }

    rc = connect(s, (struct sockaddr *) sun, sizeof(struct sockaddr_un));
    err = ngx_socket_errno;

    (void) ngx_close_socket(s);

    return rc == 0 || (err != NGX_ECONNREFUSED && err != NGX_ENOENT);
}


/* under the lock: removes what processes that were killed have left */

static void
ngx_quic_sweep(ngx_log_t *log)
{
    DIR                *dir;
    ngx_int_t           n;
    ngx_uint_t          i;
    struct dirent      *de;
    struct sockaddr_un  sun;

    dir = opendir((char *) ngx_quic_handover_dir.data);
    if (dir == NULL) {
        return;
    }

    while ((de = readdir(dir)) != NULL) {

        n = (ngx_strlen(de->d_name) >= 6)
            ? ngx_hextoi((u_char *) de->d_name, 6) : NGX_ERROR;

        if (n == NGX_ERROR) {
            continue;
        }

        ngx_quic_handover_name(&sun, n);

        if (ngx_quic_is_alive(&sun)) {
            continue;
        }

        (void) unlink(sun.sun_path);

        ngx_memcpy(sun.sun_path + ngx_strlen(sun.sun_path), ".status",
                   sizeof(".status"));
        (void) unlink(sun.sun_path);

        i = n >> NGX_QUIC_ROUTE_SHIFT;

        if (ngx_quic_worker_process(ngx_quic_state->workers[i]) == (uint32_t) n)
        {
            ngx_quic_state->workers[i] = 0;
        }

        ngx_log_error(NGX_LOG_INFO, log, 0, "quic worker %06xi is dead", n);
    }

    (void) closedir(dir);
}


/*
 * What is still to be read goes to others: clients that have just come, for
 * instance, to a socket that no other worker has.
 */

void
ngx_quic_exit_process(ngx_cycle_t *cycle)
{
    uint64_t            entry;
    struct sockaddr_un  sun;

    if (ngx_quic_handover == NULL) {
        return;
    }

    if (ngx_worker < NGX_QUIC_MAX_WORKERS) {
        entry = ngx_quic_worker_entry(ngx_quic_generation,
                                      (uint64_t) ngx_quic_process);

        (void) __sync_bool_compare_and_swap(
                                        &ngx_quic_state->workers[ngx_worker],
                                        entry, 0);
    }

    ngx_quic_handover_name(&sun, ngx_quic_process);
    (void) unlink(sun.sun_path);

    if (ngx_exiting && !ngx_terminate) {
        ngx_quic_drain_handover(ngx_quic_handover);
    }

    ngx_quic_close_status();
}


void
ngx_quic_handover_name(struct sockaddr_un *sun, uint32_t process)
{
    ngx_memzero(sun, sizeof(struct sockaddr_un));

    sun->sun_family = AF_UNIX;

    (void) ngx_snprintf((u_char *) sun->sun_path, sizeof(sun->sun_path) - 1,
                        "%V/%06xD", &ngx_quic_handover_dir, process);
}


/*
 * NGX_OK: another process owns the connection ID, and has the datagram;
 * NGX_DONE: this one does; NGX_DECLINED: none does.
 */

ngx_int_t
ngx_quic_hand_over(ngx_quic_datagram_t *dgram, u_char *cid, ngx_log_t *log)
{
    uint32_t  process;

    if (ngx_quic_handover == NULL) {
        return NGX_DECLINED;
    }

    process = ngx_quic_cid_process(cid);

    if (process == ngx_quic_process) {
        return NGX_DONE;
    }

    return ngx_quic_pass(dgram, process, NGX_QUIC_HOP_OWNER, log);
}


/*
 * Whose is a client's first flight? Of a worker that goes on, if this one is
 * about to exit; and of one that all datagrams of the flight find, if all
 * workers read one socket. NGX_DECLINED: this one's.
 */

ngx_int_t
ngx_quic_hand_over_client(ngx_listening_t *ls, ngx_quic_datagram_t *dgram,
    u_char *dcid, size_t len, ngx_log_t *log)
{
    uint32_t    process;
    uint64_t    entry, newest;
    ngx_uint_t  i, n, max, nworkers, exiting;

    if (ngx_quic_handover == NULL) {
        return NGX_DECLINED;
    }

    exiting = ngx_exiting || ngx_terminate;
    newest = ngx_quic_state->generation;

    if (exiting && newest <= ngx_quic_generation) {
        return NGX_DECLINED;
    }

#if (NGX_HAVE_REUSEPORT)

    if (ls->reuseport) {

        if (!exiting) {
            return NGX_DECLINED;
        }

        /* the same socket, and so what it reads itself of the flight */

        if (ngx_worker < NGX_QUIC_MAX_WORKERS) {
            entry = ngx_quic_state->workers[ngx_worker];

            if (ngx_quic_worker_generation(entry) > ngx_quic_generation
                && ngx_quic_pass(dgram, ngx_quic_worker_process(entry),
                                 NGX_QUIC_HOP_CLIENT, log)
                   == NGX_OK)
            {
                return NGX_OK;
            }
        }
    }

#endif

again:

    /* the workers of the newest generation that there are */

    newest = 0;
    nworkers = 0;
    max = ngx_min(ngx_quic_state->nworkers, NGX_QUIC_MAX_WORKERS);

    for (i = 0; i < max; i++) {
        entry = ngx_quic_state->workers[i];

        if (entry == 0 || ngx_quic_worker_generation(entry) < newest) {
            continue;
        }

        if (ngx_quic_worker_generation(entry) > newest) {
            newest = ngx_quic_worker_generation(entry);
            nworkers = 0;
        }

        nworkers++;
    }

    if (nworkers == 0 || newest < ngx_quic_generation + exiting) {
        return NGX_DECLINED;
    }

    n = ngx_crc32_short(dcid, len) % nworkers;

    for (i = 0; i < max; i++) {
        entry = ngx_quic_state->workers[i];

        if (entry == 0 || ngx_quic_worker_generation(entry) != newest || n--) {
            continue;
        }

        process = ngx_quic_worker_process(entry);

        if (process == ngx_quic_process
            || ngx_quic_pass(dgram, process, NGX_QUIC_HOP_CLIENT, log)
               == NGX_OK)
        {
            return process == ngx_quic_process ? NGX_DECLINED : NGX_OK;
        }

        /* it was killed */

        (void) __sync_bool_compare_and_swap(&ngx_quic_state->workers[i], entry,
                                            0);
        goto again;
    }

    return NGX_DECLINED;
}
