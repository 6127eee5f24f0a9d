
/*
 * Copyright (C) 2026, the mpq authors
 *
 * Datagrams that reached the wrong worker.
 *
 * The kernel spreads datagrams over workers by their 4-tuple, or by worker
 * number with "quic_bpf on". Neither finds the owner of a connection always: a
 * path begins with a new 4-tuple, an address may change, and while a reload or
 * an upgrade drains, two generations of workers read the same sockets. Every
 * connection ID names its worker process (ngx_event_quic_connection.h), and
 * each process has a datagram socket, named after it in the abstract namespace,
 * to which others pass what is not theirs. Nothing is shared for that, so it
 * works between generations and between binaries too. If a process is gone, so
 * is its socket, and the client gets a stateless reset.
 *
 * A small table in shared memory tells workers which are about to exit where
 * new clients go: kernels go on giving them some.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <sys/un.h>
#include <ngx_event_quic_connection.h>


#define NGX_QUIC_MAX_WORKERS        1024
#define NGX_QUIC_HANDOVER_VERSION   1
#define NGX_QUIC_HANDOVER_NAME      "nginx-quic-"
#define NGX_QUIC_HANDOVER_BATCH     64


/* goes before a datagram that is handed over */
typedef struct {
    uint32_t                      version;
    uint32_t                      from_len;
    uint32_t                      to_len;
    ngx_sockaddr_t                from;
    ngx_sockaddr_t                to;
} ngx_quic_handover_t;


typedef struct {
    uint32_t                      process;     /* 0 if there is none */
    uint32_t                      generation;
} ngx_quic_worker_t;


static socklen_t ngx_quic_handover_address(struct sockaddr_un *sun,
    uint32_t process);
static ngx_int_t ngx_quic_pass(ngx_quic_datagram_t *dgram, uint32_t process,
    ngx_log_t *log);
static void ngx_quic_handover_handler(ngx_event_t *ev);
static ngx_int_t ngx_quic_check_sender(struct msghdr *msg);


uint32_t                    ngx_quic_process;

static ngx_quic_worker_t   *ngx_quic_workers;     /* in shared memory */
static uint32_t             ngx_quic_generation;
static ngx_connection_t    *ngx_quic_handover;


/* in the master; the table is made once and lasts as long as the master */

ngx_int_t
ngx_quic_init_workers_module(ngx_cycle_t *cycle)
{
    ngx_shm_t  shm;

    ngx_quic_generation++;

    if (ngx_quic_workers || ngx_test_config) {
        return NGX_OK;
    }

    ngx_memzero(&shm, sizeof(ngx_shm_t));

    shm.size = NGX_QUIC_MAX_WORKERS * sizeof(ngx_quic_worker_t);
    ngx_str_set(&shm.name, "nginx_quic_workers");
    shm.log = cycle->log;

    if (ngx_shm_alloc(&shm) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_quic_workers = (ngx_quic_worker_t *) shm.addr;

    return NGX_OK;
}


ngx_int_t
ngx_quic_init_workers(ngx_cycle_t *cycle)
{
    int                  on;
    socklen_t            len;
    ngx_uint_t           i, n;
    ngx_event_t         *rev;
    ngx_socket_t         s;
    ngx_listening_t     *ls;
    ngx_connection_t    *c;
    struct sockaddr_un   sun;

    ls = cycle->listening.elts;
    for (i = 0, n = 0; i < cycle->listening.nelts; i++) {
        n += ls[i].quic;
    }

    if (n == 0) {
        return NGX_OK;
    }

    s = socket(AF_UNIX, SOCK_DGRAM|SOCK_NONBLOCK|SOCK_CLOEXEC, 0);
    if (s == (ngx_socket_t) -1) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, ngx_socket_errno,
                      ngx_socket_n " for quic handover failed");
        return NGX_ERROR;
    }

    on = 1;

    if (setsockopt(s, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == -1) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, ngx_socket_errno,
                      "setsockopt(SO_PASSCRED) failed");
        goto failed;
    }

    /* a random name, so that containers may share a network namespace */

    for ( ;; ) {
        if (RAND_bytes((u_char *) &ngx_quic_process, sizeof(ngx_quic_process))
            != 1)
        {
            goto failed;
        }

        if (ngx_quic_process == 0) {
            continue;
        }

        len = ngx_quic_handover_address(&sun, ngx_quic_process);

        if (bind(s, (struct sockaddr *) &sun, len) == 0) {
            break;
        }

        if (ngx_socket_errno != NGX_EADDRINUSE) {
            ngx_log_error(NGX_LOG_EMERG, cycle->log, ngx_socket_errno,
                          "bind() for quic handover failed");
            goto failed;
        }
    }

    c = ngx_get_connection(s, cycle->log);
    if (c == NULL) {
        goto failed;
    }

    rev = c->read;

    rev->log = cycle->log;
    rev->handler = ngx_quic_handover_handler;
    rev->channel = 1;

    if (ngx_add_event(rev, NGX_READ_EVENT, 0) != NGX_OK) {
        ngx_free_connection(c);
        goto failed;
    }

    ngx_quic_handover = c;

    if (ngx_quic_workers && ngx_worker < NGX_QUIC_MAX_WORKERS) {
        ngx_quic_workers[ngx_worker].generation = ngx_quic_generation;
        ngx_quic_workers[ngx_worker].process = ngx_quic_process;
    }

    return NGX_OK;

failed:

    if (ngx_close_socket(s) == -1) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_socket_errno,
                      ngx_close_socket_n " for quic handover failed");
    }

    return NGX_ERROR;
}


void
ngx_quic_exit_process(ngx_cycle_t *cycle)
{
    if (ngx_quic_workers
        && ngx_worker < NGX_QUIC_MAX_WORKERS
        && ngx_quic_process
        && ngx_quic_workers[ngx_worker].process == ngx_quic_process)
    {
        ngx_quic_workers[ngx_worker].process = 0;
    }
}


static socklen_t
ngx_quic_handover_address(struct sockaddr_un *sun, uint32_t process)
{
    u_char  *p;

    ngx_memzero(sun, sizeof(struct sockaddr_un));

    sun->sun_family = AF_UNIX;

    /* the first octet stays zero */
    p = ngx_sprintf((u_char *) &sun->sun_path[1], NGX_QUIC_HANDOVER_NAME "%08xD",
                    process);

    return p - (u_char *) sun;
}


/*
 * NGX_OK: another process owns the connection ID, and has the datagram;
 * NGX_DECLINED: none does, or this one.
 */

ngx_int_t
ngx_quic_hand_over(ngx_quic_datagram_t *dgram, u_char *cid, ngx_log_t *log)
{
    uint32_t  process;

    ngx_memcpy(&process, &cid[NGX_QUIC_CID_PROCESS], sizeof(process));

    if (process == ngx_quic_process) {
        return NGX_DECLINED;
    }

    return ngx_quic_pass(dgram, process, log);
}


/* a new client at a worker that exits: it belongs to the new generation */

ngx_int_t
ngx_quic_hand_over_to_successor(ngx_quic_datagram_t *dgram, ngx_log_t *log)
{
    ngx_uint_t          i;
    ngx_quic_worker_t  *w;

    static ngx_uint_t   next;

    if (ngx_quic_workers == NULL) {
        return NGX_DECLINED;
    }

    w = &ngx_quic_workers[ngx_worker];

    /* with fewer workers than before, one after the other */

    for (i = 0; i < NGX_QUIC_MAX_WORKERS; i++) {

        if (w->process && w->generation > ngx_quic_generation) {
            return ngx_quic_pass(dgram, w->process, log);
        }

        w = &ngx_quic_workers[next++ % NGX_QUIC_MAX_WORKERS];
    }

    return NGX_DECLINED;
}


static ngx_int_t
ngx_quic_pass(ngx_quic_datagram_t *dgram, uint32_t process, ngx_log_t *log)
{
    ssize_t              n;
    ngx_err_t            err;
    ngx_uint_t           level;
    struct iovec         iov[2];
    struct msghdr        msg;
    struct sockaddr_un   sun;
    ngx_quic_handover_t  head;

    if (ngx_quic_handover == NULL) {
        return NGX_DECLINED;
    }

    ngx_memzero(&head, sizeof(ngx_quic_handover_t));

    head.version = NGX_QUIC_HANDOVER_VERSION;
    head.from_len = dgram->from_len;
    head.to_len = dgram->to_len;
    ngx_memcpy(&head.from, &dgram->from, dgram->from_len);
    ngx_memcpy(&head.to, &dgram->to, dgram->to_len);

    iov[0].iov_base = &head;
    iov[0].iov_len = sizeof(ngx_quic_handover_t);
    iov[1].iov_base = dgram->data;
    iov[1].iov_len = dgram->len;

    ngx_memzero(&msg, sizeof(struct msghdr));

    msg.msg_name = &sun;
    msg.msg_namelen = ngx_quic_handover_address(&sun, process);
    msg.msg_iov = iov;
    msg.msg_iovlen = 2;

    n = sendmsg(ngx_quic_handover->fd, &msg, MSG_DONTWAIT);

    if (n != -1) {
        ngx_quic_status->handed_over++;

        ngx_log_debug2(NGX_LOG_DEBUG_EVENT, log, 0,
                       "quic datagram of %uz octets to process %08xD",
                       dgram->len, process);
        return NGX_OK;
    }

    err = ngx_socket_errno;

    if (err == NGX_ECONNREFUSED || err == NGX_ENOENT) {
        /* no such process (any more) */
        return NGX_DECLINED;
    }

    /* the other one is too busy: a lost datagram */

    level = (err == NGX_EAGAIN) ? NGX_LOG_INFO : NGX_LOG_ALERT;

    ngx_log_error(level, log, err, "quic handover to another worker failed");

    return NGX_OK;
}


static void
ngx_quic_handover_handler(ngx_event_t *ev)
{
    ssize_t               n;
    ngx_err_t             err;
    ngx_uint_t            i;
    struct iovec          iov[2];
    struct msghdr         msg;
    ngx_listening_t      *ls;
    ngx_connection_t     *c;
    ngx_quic_datagram_t   dgram;
    ngx_quic_handover_t   head;

    u_char                control[CMSG_SPACE(sizeof(struct ucred))];
    static u_char         buffer[NGX_QUIC_MAX_UDP_PAYLOAD_SIZE];

    c = ev->data;

    for (i = 0; i < NGX_QUIC_HANDOVER_BATCH; i++) {

        iov[0].iov_base = &head;
        iov[0].iov_len = sizeof(ngx_quic_handover_t);
        iov[1].iov_base = buffer;
        iov[1].iov_len = sizeof(buffer);

        ngx_memzero(&msg, sizeof(struct msghdr));

        msg.msg_iov = iov;
        msg.msg_iovlen = 2;
        msg.msg_control = control;
        msg.msg_controllen = sizeof(control);

        n = recvmsg(c->fd, &msg, MSG_DONTWAIT);

        if (n == -1) {
            err = ngx_socket_errno;

            if (err != NGX_EAGAIN && err != NGX_EINTR) {
                ngx_log_error(NGX_LOG_ALERT, ev->log, err,
                              "quic handover recvmsg() failed");
            }

            return;
        }

        if (ngx_quic_check_sender(&msg) != NGX_OK) {
            ngx_log_error(NGX_LOG_WARN, ev->log, 0,
                          "quic handover from a process of another user");
            continue;
        }

        if ((size_t) n <= sizeof(ngx_quic_handover_t)
            || head.version != NGX_QUIC_HANDOVER_VERSION
            || head.from_len > sizeof(ngx_sockaddr_t)
            || head.to_len > sizeof(ngx_sockaddr_t)
            || (msg.msg_flags & (MSG_TRUNC|MSG_CTRUNC)))
        {
            ngx_log_error(NGX_LOG_INFO, ev->log, 0,
                          "quic handover of another version, ignored");
            continue;
        }

        dgram.data = buffer;
        dgram.len = n - sizeof(ngx_quic_handover_t);
        dgram.from = head.from;
        dgram.from_len = head.from_len;
        dgram.to = head.to;
        dgram.to_len = head.to_len;

        ls = ngx_quic_find_listening(&dgram.to.sockaddr, dgram.to_len);

        if (ls) {
            ngx_quic_dispatch(ls, &dgram, 1);
        }
    }
}


/* anybody in the network namespace can send to an abstract name */

static ngx_int_t
ngx_quic_check_sender(struct msghdr *msg)
{
    struct ucred     cred;
    struct cmsghdr  *cmsg;

    for (cmsg = CMSG_FIRSTHDR(msg);
         cmsg != NULL;
         cmsg = CMSG_NXTHDR(msg, cmsg))
    {
        if (cmsg->cmsg_level == SOL_SOCKET
            && cmsg->cmsg_type == SCM_CREDENTIALS)
        {
            ngx_memcpy(&cred, CMSG_DATA(cmsg), sizeof(struct ucred));

            return (cred.uid == geteuid() || cred.uid == 0) ? NGX_OK
                                                            : NGX_DECLINED;
        }
    }

    return NGX_DECLINED;
}
