
/*
 * Copyright (C) 2026, the mpq authors
 *
 * Datagrams on their way from one worker to another, which has a Unix stream
 * socket for them (ngx_event_quic_workers.c). Streams have no limit on the
 * number of datagrams, as Unix datagram sockets do; what does not fit into the
 * kernel's buffer waits here, up to NGX_QUIC_HANDOVER_MAX for each process, and
 * what is dropped after all is counted. Both ends ask the kernel whose process
 * the other one is.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <poll.h>
#include <sys/un.h>
#include <ngx_event_quic_connection.h>


#define NGX_QUIC_HANDOVER_VERSION   3
#define NGX_QUIC_HANDOVER_MAX       (4 * 1024 * 1024)  /* octets that wait */
#define NGX_QUIC_HANDOVER_KEEP      (64 * 1024)
#define NGX_QUIC_HANDOVER_READ      (256 * 1024)
#define NGX_QUIC_HANDOVER_READS     16                 /* in a row */
#define NGX_QUIC_HANDOVER_LAST_READS  1024
#define NGX_QUIC_HANDOVER_TIMEOUT   10000              /* ms without progress */
#define NGX_QUIC_HANDOVER_LINGER    1000               /* ms, at exit */


/* goes before a datagram that is handed over */
typedef struct {
    uint32_t                      version;
    uint32_t                      hops;
    uint32_t                      from_len;
    uint32_t                      to_len;
    uint32_t                      len;
    uint32_t                      ecn;
    struct sockaddr_in6           from;        /* or sockaddr_in */
    struct sockaddr_in6           to;
} ngx_quic_handover_t;


/* another process, to which datagrams go */
typedef struct {
    ngx_rbtree_node_t             node;        /* by process */
    ngx_connection_t             *connection;
    u_char                       *start;
    u_char                       *frame;       /* the first not wholly written */
    u_char                       *pos;         /* the first octet not written */
    u_char                       *last;
    u_char                       *end;
} ngx_quic_peer_t;


/* another process, from which datagrams come */
typedef struct {
    ngx_queue_t                   queue;
    ngx_connection_t             *connection;
    u_char                       *partial;     /* the beginning of a datagram */
    size_t                        len;
} ngx_quic_source_t;


static ngx_int_t ngx_quic_get_peer(uint32_t process, ngx_quic_peer_t **out,
    ngx_log_t *log);
static ngx_int_t ngx_quic_check_process(ngx_socket_t s, ngx_log_t *log);
static ngx_int_t ngx_quic_reserve(ngx_quic_peer_t *peer, size_t size,
    ngx_log_t *log);
static void ngx_quic_peer_write_handler(ngx_event_t *ev);
static void ngx_quic_peer_read_handler(ngx_event_t *ev);
static ngx_int_t ngx_quic_flush_peer(ngx_quic_peer_t *peer);
static void ngx_quic_close_peer(ngx_quic_peer_t *peer, ngx_uint_t drop);
static void ngx_quic_source_handler(ngx_event_t *ev);
static ngx_int_t ngx_quic_read_source(ngx_quic_source_t *source,
    ngx_uint_t max);
static ssize_t ngx_quic_take_frames(u_char *p, u_char *last, ngx_log_t *log);
static void ngx_quic_close_source(ngx_quic_source_t *source);


static ngx_socket_t         ngx_quic_spare = (ngx_socket_t) -1;
static ngx_queue_t          ngx_quic_sources;
static ngx_rbtree_t         ngx_quic_peers;
static ngx_rbtree_node_t    ngx_quic_peers_sentinel;


void
ngx_quic_init_handover(void)
{
    ngx_queue_init(&ngx_quic_sources);
    ngx_rbtree_init(&ngx_quic_peers, &ngx_quic_peers_sentinel,
                    ngx_rbtree_insert_value);
}


/* NGX_OK: nothing is left to do; NGX_DECLINED: there is no such process */

ngx_int_t
ngx_quic_pass(ngx_quic_datagram_t *dgram, uint32_t process, ngx_uint_t hops,
    ngx_log_t *log)
{
    size_t                size;
    ngx_int_t             rc;
    ngx_quic_peer_t      *peer;
    ngx_quic_handover_t   head;

    if (dgram->from_len > sizeof(head.from)
        || dgram->to_len > sizeof(head.to)
        || dgram->len > NGX_QUIC_MAX_UDP_PAYLOAD_SIZE)
    {
        ngx_quic_status->handover_dropped++;
        return NGX_OK;
    }

    rc = ngx_quic_get_peer(process, &peer, log);

    if (rc == NGX_DECLINED) {
        return NGX_DECLINED;
    }

    if (rc != NGX_OK) {
        ngx_quic_status->handover_dropped++;
        return NGX_OK;
    }

    size = sizeof(ngx_quic_handover_t) + dgram->len;

    if (ngx_quic_reserve(peer, size, log) != NGX_OK) {
        ngx_quic_status->handover_dropped++;
        return NGX_OK;
    }

    ngx_memzero(&head, sizeof(ngx_quic_handover_t));

    head.version = NGX_QUIC_HANDOVER_VERSION;
    head.hops = hops;
    head.from_len = dgram->from_len;
    head.to_len = dgram->to_len;
    head.len = dgram->len;
    head.ecn = dgram->ecn;
    ngx_memcpy(&head.from, &dgram->from, dgram->from_len);
    ngx_memcpy(&head.to, &dgram->to, dgram->to_len);

    peer->last = ngx_cpymem(peer->last, &head, sizeof(ngx_quic_handover_t));
    peer->last = ngx_cpymem(peer->last, dgram->data, dgram->len);

    ngx_quic_status->handed_over++;

    /* one system call for all that are read at once */

    if (peer->connection->write->ready) {
        ngx_post_event(peer->connection->write, &ngx_posted_events);
    }

    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, log, 0,
                   "quic datagram of %uz octets to process %06xD",
                   dgram->len, process);

    return NGX_OK;
}


/* NGX_DECLINED: there is no such process; NGX_ERROR: it cannot be reached now */

static ngx_int_t
ngx_quic_get_peer(uint32_t process, ngx_quic_peer_t **out, ngx_log_t *log)
{
    ngx_int_t           rc;
    ngx_err_t           err;
    ngx_uint_t          level;
    ngx_socket_t        s;
    ngx_quic_peer_t    *peer;
    ngx_connection_t   *c;
    ngx_rbtree_node_t  *node, *sentinel;
    struct sockaddr_un  sun;

    node = ngx_quic_peers.root;
    sentinel = ngx_quic_peers.sentinel;

    while (node != sentinel) {

        if (process == node->key) {
            *out = (ngx_quic_peer_t *) node;
            return NGX_OK;
        }

        node = (process < node->key) ? node->left : node->right;
    }

    /* most connection IDs that nobody knows end here, with one system call */

    s = ngx_quic_spare;
    ngx_quic_spare = (ngx_socket_t) -1;

    if (s == (ngx_socket_t) -1) {
        s = socket(AF_UNIX, SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC, 0);
        if (s == (ngx_socket_t) -1) {
            ngx_log_error(NGX_LOG_ALERT, log, ngx_socket_errno,
                          ngx_socket_n " for quic handover failed");
            return NGX_ERROR;
        }
    }

    ngx_quic_handover_name(&sun, process);

    if (connect(s, (struct sockaddr *) &sun, sizeof(struct sockaddr_un)) == -1) {
        err = ngx_socket_errno;

        ngx_quic_spare = s;

        if (err == NGX_ENOENT || err == NGX_ECONNREFUSED) {
            return NGX_DECLINED;
        }

        if (err == NGX_EACCES || err == NGX_EPERM) {
            /* of another user, since "user" was changed */
            ngx_log_error(NGX_LOG_WARN, log, err,
                          "quic handover to \"%s\" refused", sun.sun_path);
            return NGX_DECLINED;
        }

        level = (err == NGX_EAGAIN) ? NGX_LOG_ERR : NGX_LOG_ALERT;

        ngx_log_error(level, log, err,
                      "quic handover to \"%s\" failed", sun.sun_path);
        return NGX_ERROR;
    }

    rc = ngx_quic_check_process(s, log);
    if (rc != NGX_OK) {
        goto failed;
    }

    rc = NGX_ERROR;

    peer = ngx_calloc(sizeof(ngx_quic_peer_t), log);
    if (peer == NULL) {
        goto failed;
    }

    c = ngx_get_connection(s, ngx_cycle->log);
    if (c == NULL) {
        ngx_free(peer);
        goto failed;
    }

    c->data = peer;
    c->log = ngx_cycle->log;
    c->read->log = c->log;
    c->write->log = c->log;
    c->read->handler = ngx_quic_peer_read_handler;
    c->write->handler = ngx_quic_peer_write_handler;
    c->read->channel = 1;
    c->write->channel = 1;
    c->write->ready = 1;

    peer->connection = c;

    if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
        ngx_close_connection(c);
        ngx_free(peer);
        return NGX_ERROR;
    }

    peer->node.key = process;
    ngx_rbtree_insert(&ngx_quic_peers, &peer->node);

    *out = peer;

    return NGX_OK;

failed:

    (void) ngx_close_socket(s);

    return rc;
}


/* of the same user; for a listening process the kernel has kept who it was */

static ngx_int_t
ngx_quic_check_process(ngx_socket_t s, ngx_log_t *log)
{
    socklen_t     len;
    struct ucred  cred;

    len = sizeof(struct ucred);

    if (getsockopt(s, SOL_SOCKET, SO_PEERCRED, &cred, &len) == -1) {
        ngx_log_error(NGX_LOG_ALERT, log, ngx_socket_errno,
                      "getsockopt(SO_PEERCRED) failed");
        return NGX_ERROR;
    }

    if (cred.uid != geteuid()) {
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "quic handover with process %P of another user refused",
                      cred.pid);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_quic_reserve(ngx_quic_peer_t *peer, size_t size, ngx_log_t *log)
{
    size_t   used, written, room;
    u_char  *start;

    if ((size_t) (peer->end - peer->last) >= size) {
        return NGX_OK;
    }

    used = peer->last - peer->frame;
    written = peer->pos - peer->frame;

    if (used + size > NGX_QUIC_HANDOVER_MAX) {
        return NGX_ERROR;
    }

    room = peer->end - peer->start;

    /* moves no more than it makes free */

    if (peer->frame - peer->start >= (ssize_t) ngx_max(used, size)) {
        ngx_memmove(peer->start, peer->frame, used);
        start = peer->start;

    } else {
        room = ngx_max(2 * room, NGX_QUIC_HANDOVER_KEEP);

        while (room < used + size) {
            room *= 2;
        }

        start = ngx_alloc(room, log);
        if (start == NULL) {
            return NGX_ERROR;
        }

        if (peer->start) {
            ngx_memcpy(start, peer->frame, used);
            ngx_free(peer->start);
        }
    }

    peer->start = start;
    peer->frame = start;
    peer->pos = start + written;
    peer->last = start + used;
    peer->end = start + room;

    return NGX_OK;
}


static void
ngx_quic_peer_write_handler(ngx_event_t *ev)
{
    ngx_int_t          rc;
    ngx_quic_peer_t   *peer;
    ngx_connection_t  *c;

    c = ev->data;
    peer = c->data;

    if (ev->timedout) {
        ev->timedout = 0;

        ngx_log_error(NGX_LOG_ERR, ev->log, NGX_ETIMEDOUT,
                      "quic handover: a worker takes nothing");

        ngx_quic_close_peer(peer, 1);
        return;
    }

    rc = ngx_quic_flush_peer(peer);

    if (rc == NGX_ERROR) {
        ngx_quic_close_peer(peer, 0);
        return;
    }

    if (ngx_handle_write_event(ev, 0) != NGX_OK) {
        ngx_quic_close_peer(peer, 0);
        return;
    }

    if (rc == NGX_OK) {
        if (ev->timer_set) {
            ngx_del_timer(ev);
        }

        return;
    }

    /* also keeps a worker from exiting before */

    ngx_add_timer(ev, NGX_QUIC_HANDOVER_TIMEOUT);
}


/* nothing comes this way, but the end */

static void
ngx_quic_peer_read_handler(ngx_event_t *ev)
{
    u_char             buf[16];
    ssize_t            n;
    ngx_connection_t  *c;

    c = ev->data;

    n = recv(c->fd, buf, sizeof(buf), MSG_DONTWAIT);

    if (n == -1 && (ngx_socket_errno == NGX_EAGAIN
                    || ngx_socket_errno == NGX_EINTR))
    {
        ev->ready = 0;

        if (ngx_handle_read_event(ev, 0) == NGX_OK) {
            return;
        }
    }

    ngx_quic_close_peer(c->data, 0);
}


static ngx_int_t
ngx_quic_flush_peer(ngx_quic_peer_t *peer)
{
    size_t                size;
    ssize_t               n;
    ngx_err_t             err;
    ngx_quic_handover_t   head;

    while (peer->pos != peer->last) {

        n = send(peer->connection->fd, peer->pos, peer->last - peer->pos,
                 MSG_DONTWAIT|MSG_NOSIGNAL);

        if (n == -1) {
            err = ngx_socket_errno;

            if (err == NGX_EINTR) {
                continue;
            }

            if (err == NGX_EAGAIN) {
                peer->connection->write->ready = 0;
                return NGX_AGAIN;
            }

            ngx_log_debug0(NGX_LOG_DEBUG_EVENT, peer->connection->log, err,
                           "quic handover: a worker has gone");
            return NGX_ERROR;
        }

        peer->pos += n;

        while (peer->frame != peer->last) {
            ngx_memcpy(&head, peer->frame, sizeof(ngx_quic_handover_t));
            size = sizeof(ngx_quic_handover_t) + head.len;

            if (size > (size_t) (peer->pos - peer->frame)) {
                break;
            }

            peer->frame += size;
        }
    }

    peer->frame = peer->start;
    peer->pos = peer->start;
    peer->last = peer->start;

    if (peer->end - peer->start > NGX_QUIC_HANDOVER_KEEP) {
        ngx_free(peer->start);

        peer->start = NULL;
        peer->frame = NULL;
        peer->pos = NULL;
        peer->last = NULL;
        peer->end = NULL;
    }

    return NGX_OK;
}


/* what has not been taken is treated as if the process had not been there */

static void
ngx_quic_close_peer(ngx_quic_peer_t *peer, ngx_uint_t drop)
{
    u_char               *p, *last;
    ngx_listening_t      *ls;
    ngx_quic_datagram_t   dgram;
    ngx_quic_handover_t   head;

    ngx_rbtree_delete(&ngx_quic_peers, &peer->node);
    ngx_close_connection(peer->connection);

    p = peer->frame;
    last = peer->last;

    while (p != last) {
        ngx_memcpy(&head, p, sizeof(ngx_quic_handover_t));
        p += sizeof(ngx_quic_handover_t);

        dgram.data = p;
        dgram.len = head.len;
        p += head.len;

        if (drop) {
            ngx_quic_status->handover_dropped++;
            continue;
        }

        dgram.from_len = head.from_len;
        dgram.to_len = head.to_len;
        dgram.ecn = head.ecn;
        ngx_memcpy(&dgram.from, &head.from, head.from_len);
        ngx_memcpy(&dgram.to, &head.to, head.to_len);

        ls = ngx_quic_find_listening(&dgram.to.sockaddr, dgram.to_len);

        if (ls) {
            ngx_quic_dispatch(ls, &dgram, NGX_QUIC_HOP_CLIENT);
        } else {
            ngx_quic_status->dropped++;
        }
    }

    if (peer->start) {
        ngx_free(peer->start);
    }

    ngx_free(peer);
}


void
ngx_quic_handover_accept(ngx_event_t *ev)
{
    ngx_err_t           err;
    ngx_socket_t        s;
    ngx_connection_t   *lc, *c;
    ngx_quic_source_t  *source;

    lc = ev->data;

    for ( ;; ) {

        s = accept4(lc->fd, NULL, NULL, SOCK_NONBLOCK|SOCK_CLOEXEC);

        if (s == (ngx_socket_t) -1) {
            err = ngx_socket_errno;

            if (err == NGX_EINTR || err == NGX_ECONNABORTED) {
                continue;
            }

            if (err != NGX_EAGAIN) {
                ngx_log_error(NGX_LOG_ALERT, ev->log, err,
                              "quic handover accept4() failed");
            }

            return;
        }

        if (ngx_quic_check_process(s, ev->log) != NGX_OK) {
            (void) ngx_close_socket(s);
            continue;
        }

        source = ngx_calloc(sizeof(ngx_quic_source_t), ev->log);
        if (source == NULL) {
            (void) ngx_close_socket(s);
            continue;
        }

        c = ngx_get_connection(s, ngx_cycle->log);
        if (c == NULL) {
            (void) ngx_close_socket(s);
            ngx_free(source);
            continue;
        }

        c->data = source;
        c->log = ngx_cycle->log;
        c->read->log = c->log;
        c->write->log = c->log;
        c->read->handler = ngx_quic_source_handler;
        c->read->channel = 1;
        c->write->channel = 1;

        source->connection = c;
        ngx_queue_insert_tail(&ngx_quic_sources, &source->queue);

        if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
            ngx_quic_close_source(source);
            continue;
        }
    }
}


static void
ngx_quic_source_handler(ngx_event_t *ev)
{
    ngx_int_t           rc;
    ngx_connection_t   *c;
    ngx_quic_source_t  *source;

    c = ev->data;
    source = c->data;

    rc = ngx_quic_read_source(source, NGX_QUIC_HANDOVER_READS);

    if (rc == NGX_AGAIN) {
        /* others' turn */
        ngx_post_event(ev, &ngx_posted_next_events);
        return;
    }

    if (rc != NGX_OK || ngx_handle_read_event(ev, 0) != NGX_OK) {
        ngx_quic_close_source(source);
    }
}


/* NGX_OK: all is read; NGX_AGAIN: there is more; NGX_ERROR: it is over */

static ngx_int_t
ngx_quic_read_source(ngx_quic_source_t *source, ngx_uint_t max)
{
    u_char            *last;
    ssize_t            n, left;
    ngx_err_t          err;
    ngx_uint_t         i;
    ngx_connection_t  *c;

    static u_char      buffer[NGX_QUIC_HANDOVER_READ];

    c = source->connection;

    for (i = 0; i < max; i++) {

        if (source->len) {
            ngx_memcpy(buffer, source->partial, source->len);
        }

        n = recv(c->fd, buffer + source->len, sizeof(buffer) - source->len,
                 MSG_DONTWAIT);

        if (n == -1) {
            err = ngx_socket_errno;

            if (err == NGX_EINTR) {
                continue;
            }

            if (err == NGX_EAGAIN) {
                c->read->ready = 0;
                return NGX_OK;
            }

            if (err != NGX_ECONNRESET) {
                ngx_log_error(NGX_LOG_ALERT, c->log, err,
                              "quic handover recv() failed");
            }
        }

        if (n <= 0) {
            return NGX_ERROR;
        }

        last = buffer + source->len + n;
        left = ngx_quic_take_frames(buffer, last, c->log);

        if (left < 0) {
            return NGX_ERROR;
        }

        if (left && source->partial == NULL) {
            source->partial = ngx_alloc(sizeof(ngx_quic_handover_t)
                                        + NGX_QUIC_MAX_UDP_PAYLOAD_SIZE,
                                        c->log);
            if (source->partial == NULL) {
                return NGX_ERROR;
            }
        }

        if (left) {
            ngx_memcpy(source->partial, last - left, left);
        }

        source->len = left;
    }

    return NGX_AGAIN;
}


/* returns the octets that are left: less than a datagram; NGX_ERROR: nonsense */

static ssize_t
ngx_quic_take_frames(u_char *p, u_char *last, ngx_log_t *log)
{
    ngx_listening_t      *ls;
    ngx_quic_datagram_t   dgram;
    ngx_quic_handover_t   head;

    while ((size_t) (last - p) >= sizeof(ngx_quic_handover_t)) {

        ngx_memcpy(&head, p, sizeof(ngx_quic_handover_t));

        if (head.version != NGX_QUIC_HANDOVER_VERSION
            || head.len > NGX_QUIC_MAX_UDP_PAYLOAD_SIZE
            || head.from_len > sizeof(head.from)
            || head.to_len > sizeof(head.to))
        {
            ngx_log_error(NGX_LOG_WARN, log, 0,
                          "quic handover from another version refused");
            ngx_quic_status->handover_dropped++;
            return NGX_ERROR;
        }

        if (head.len > (size_t) (last - p) - sizeof(ngx_quic_handover_t)) {
            break;
        }

        dgram.data = p + sizeof(ngx_quic_handover_t);
        dgram.len = head.len;
        dgram.from_len = head.from_len;
        dgram.to_len = head.to_len;
        dgram.ecn = head.ecn;
        ngx_memcpy(&dgram.from, &head.from, head.from_len);
        ngx_memcpy(&dgram.to, &head.to, head.to_len);

        p = dgram.data + dgram.len;

        ngx_quic_status->handover_received++;

        ls = ngx_quic_find_listening(&dgram.to.sockaddr, dgram.to_len);

        if (ls) {
            ngx_quic_dispatch(ls, &dgram, head.hops);
        } else {
            ngx_quic_status->dropped++;
        }
    }

    return last - p;
}


static void
ngx_quic_close_source(ngx_quic_source_t *source)
{
    ngx_queue_remove(&source->queue);
    ngx_close_connection(source->connection);

    if (source->partial) {
        ngx_free(source->partial);
    }

    ngx_free(source);
}


/* before a worker exits: what is still to be read, and what is not yet taken */

void
ngx_quic_drain_handover(ngx_connection_t *lc)
{
    ngx_msec_t           end;
    ngx_queue_t         *q;
    struct pollfd        pfd;
    ngx_quic_peer_t     *peer;
    ngx_rbtree_node_t   *node;

    ngx_quic_handover_accept(lc->read);

    for (q = ngx_queue_head(&ngx_quic_sources);
         q != ngx_queue_sentinel(&ngx_quic_sources);
         q = ngx_queue_next(q))
    {
        (void) ngx_quic_read_source(
                                ngx_queue_data(q, ngx_quic_source_t, queue),
                                NGX_QUIC_HANDOVER_LAST_READS);
    }

    ngx_quic_drain_listeners();

    ngx_time_update();
    end = ngx_current_msec + NGX_QUIC_HANDOVER_LINGER;

    while (ngx_quic_peers.root != &ngx_quic_peers_sentinel) {

        node = ngx_rbtree_min(ngx_quic_peers.root, &ngx_quic_peers_sentinel);
        peer = (ngx_quic_peer_t *) node;

        ngx_time_update();

        if (ngx_quic_flush_peer(peer) != NGX_AGAIN
            || (ngx_msec_int_t) (end - ngx_current_msec) <= 0)
        {
            ngx_quic_close_peer(peer, 1);
            continue;
        }

        pfd.fd = peer->connection->fd;
        pfd.events = POLLOUT;

        (void) poll(&pfd, 1, (int) (end - ngx_current_msec));
    }
}
