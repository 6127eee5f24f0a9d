
/*
 * Copyright (C) 2026, the mpq authors
 *
 * Datagrams out. quiche cannot take back a packet that it has made, so a
 * datagram that the kernel refuses is kept, and quiche is asked for no more
 * until the kernel has taken it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_quic_connection.h>


/* the kernel's limits of one message with UDP_SEGMENT */
#define NGX_QUIC_MAX_SEGMENTS       64
#define NGX_QUIC_MAX_MESSAGE        65000

/* messages for one system call, and the space of what they hold */
#define NGX_QUIC_SEND_BATCH         32
#define NGX_QUIC_SEND_BUFFER        (3 * 65536)

/* batches of one connection until the others get their turn */
#define NGX_QUIC_MAX_BATCHES        4

#define NGX_QUIC_DATAGRAM_SIZE      1500

/* a segment's size, an ECN codepoint and an address */
#define NGX_QUIC_CONTROL_SIZE                                                 \
    (CMSG_SPACE(sizeof(uint16_t)) + CMSG_SPACE(sizeof(int))                   \
     + CMSG_SPACE(sizeof(ngx_addrinfo_t)))


/* datagrams of equal size, but for the last one, with equal addresses and ECN */
typedef struct {
    u_char                       *data;
    size_t                        len;
    size_t                        segment;
    ngx_uint_t                    nsegments;
    struct sockaddr_storage       from;
    socklen_t                     from_len;
    struct sockaddr_storage       to;
    socklen_t                     to_len;
    u_char                        ecn;
} ngx_quic_message_t;


struct ngx_quic_pending_s {
    ngx_uint_t                    nmessages;
    ngx_uint_t                    current;
    ngx_quic_message_t            messages[NGX_QUIC_SEND_BATCH];
    u_char                        data[1];
};


static ngx_uint_t ngx_quic_make_messages(ngx_quic_connection_t *qc,
    ngx_quic_message_t *msgs, u_char *buf, ngx_uint_t *more);
static size_t ngx_quic_make_train(ngx_quic_connection_t *qc,
    ngx_quic_message_t *m, u_char *p, u_char *end);
static ngx_int_t ngx_quic_send_messages(ngx_connection_t *c,
    ngx_quic_message_t *msgs, ngx_uint_t n, ngx_uint_t *sent);
static ngx_int_t ngx_quic_keep_messages(ngx_connection_t *c,
    ngx_quic_message_t *msgs, ngx_uint_t n);
static ngx_int_t ngx_quic_send_pending(ngx_connection_t *c);
static void ngx_quic_set_control(struct msghdr *msg, u_char *control,
    struct sockaddr *from, size_t segment, u_char ecn);
static ngx_uint_t ngx_quic_is_ipv4(struct sockaddr *sa);
static void ngx_quic_send_failed(ngx_connection_t *c, ngx_quic_message_t *m,
    ngx_err_t err);
static ngx_err_t ngx_quic_send_segments(ngx_connection_t *c,
    ngx_quic_message_t *m, ngx_err_t err);


void
ngx_quic_output(ngx_connection_t *c)
{
    ngx_int_t               rc;
    ngx_uint_t              i, n, sent, more;
    ngx_quic_connection_t  *qc;

    static u_char              buf[NGX_QUIC_SEND_BUFFER];
    static ngx_quic_message_t  msgs[NGX_QUIC_SEND_BATCH];

    qc = ngx_quic_get_connection(c);

    c->log->action = "sending quic packets";

    if (qc->pending) {
        rc = ngx_quic_send_pending(c);

        if (rc != NGX_OK) {
            return;
        }
    }

    for (i = 0; i < NGX_QUIC_MAX_BATCHES; i++) {

        n = ngx_quic_make_messages(qc, msgs, buf, &more);

        if (n == 0) {
            return;
        }

        rc = ngx_quic_send_messages(c, msgs, n, &sent);

        if (rc == NGX_AGAIN) {
            (void) ngx_quic_keep_messages(c, &msgs[sent], n - sent);
            return;
        }

        if (!more) {
            return;
        }
    }

    /* goes on after other events */

    ngx_post_event(&qc->push, &ngx_posted_next_events);
}


static ngx_uint_t
ngx_quic_make_messages(ngx_quic_connection_t *qc, ngx_quic_message_t *msgs,
    u_char *buf, ngx_uint_t *more)
{
    size_t               size;
    u_char              *p, *end;
    ssize_t              n;
    ngx_uint_t           nmsgs, gso;
    quiche_send_info     info;
    ngx_quic_message_t  *m, *next;

    gso = qc->conf->gso_enabled && !qc->no_gso;

    p = buf;
    end = buf + NGX_QUIC_SEND_BUFFER;
    m = NULL;
    nmsgs = 0;
    *more = 1;

    while (end - p >= NGX_QUIC_DATAGRAM_SIZE) {

        /* a train that did not fit into a message goes on in the next */

        if (m && m->len % m->segment == 0
            && (m->nsegments == NGX_QUIC_MAX_SEGMENTS
                || m->len + m->segment > NGX_QUIC_MAX_MESSAGE))
        {
            next = &msgs[nmsgs];

            *next = *m;
            next->data = p;
            next->len = 0;
            next->nsegments = 0;

            size = ngx_quic_make_train(qc, next, p, end);

            if (size) {
                m = next;
                p += size;

                if (++nmsgs == NGX_QUIC_SEND_BATCH) {
                    return nmsgs;
                }

                continue;
            }
        }

        n = quiche_conn_send(qc->conn, p, NGX_QUIC_DATAGRAM_SIZE, &info);

        if (n <= 0) {

            if (n != QUICHE_ERR_DONE) {
                ngx_log_error(NGX_LOG_ALERT, qc->udp.connection->log, 0,
                              "quiche_conn_send() failed: %z", n);
            }

            *more = 0;
            return nmsgs;
        }

        if (gso && m
            && (size_t) n <= m->segment
            && m->len % m->segment == 0
            && m->nsegments < NGX_QUIC_MAX_SEGMENTS
            && m->len + n <= NGX_QUIC_MAX_MESSAGE
            && info.to_len == m->to_len
            && info.from_len == m->from_len
            && info.ecn == m->ecn
            && ngx_memcmp(&info.to, &m->to, m->to_len) == 0
            && ngx_memcmp(&info.from, &m->from, m->from_len) == 0)
        {
            m->len += n;
            m->nsegments++;
            p += n;

            p += ngx_quic_make_train(qc, m, p, end);
            continue;
        }

        m = &msgs[nmsgs++];

        m->data = p;
        m->len = n;
        m->segment = n;
        m->nsegments = 1;
        m->from = info.from;
        m->from_len = info.from_len;
        m->to = info.to;
        m->to_len = info.to_len;
        m->ecn = info.ecn;

        p += n;

        if (gso) {
            p += ngx_quic_make_train(qc, m, p, end);
        }

        if (nmsgs == NGX_QUIC_SEND_BATCH) {
            /* the next datagram may not fit into the last message */
            return nmsgs;
        }
    }

    return nmsgs;
}


/* adds datagrams like the last one, of stream data only, to a message */

static size_t
ngx_quic_make_train(ngx_quic_connection_t *qc, ngx_quic_message_t *m,
    u_char *p, u_char *end)
{
    size_t   room;
    ssize_t  n;

    if (m->len % m->segment != 0) {
        return 0;
    }

    room = (NGX_QUIC_MAX_SEGMENTS - m->nsegments) * m->segment;
    room = ngx_min(room, NGX_QUIC_MAX_MESSAGE - m->len);
    room = ngx_min(room, (size_t) (end - p));

    /* as long as the last one, which may be shorter than the others */
    if (room < m->segment) {
        return 0;
    }

    n = quiche_conn_send_train(qc->conn, p, room);

    if (n <= 0) {
        return 0;
    }

    m->len += n;
    m->nsegments += (n + m->segment - 1) / m->segment;

    return n;
}


/* NGX_AGAIN: the kernel has taken the first "sent" messages only */

static ngx_int_t
ngx_quic_send_messages(ngx_connection_t *c, ngx_quic_message_t *msgs,
    ngx_uint_t n, ngx_uint_t *sent)
{
    int                     rc;
    ngx_err_t               err;
    ngx_uint_t              i, k, last, batch;
    struct sockaddr        *from;
    ngx_listening_t        *ls;

    static struct iovec    iovs[NGX_QUIC_SEND_BATCH];
    static struct mmsghdr  vec[NGX_QUIC_SEND_BATCH];
    static u_char          control[NGX_QUIC_SEND_BATCH]
                                  [NGX_QUIC_CONTROL_SIZE];

    i = 0;

    while (i < n) {

        from = (struct sockaddr *) &msgs[i].from;

        ls = ngx_quic_find_listening(from, msgs[i].from_len);

        if (ls == NULL) {
            /* cannot be: paths begin with what was received there */
            ngx_log_error(NGX_LOG_ALERT, c->log, 0,
                          "quic no socket for a path");
            i++;
            continue;
        }

        /* messages in a row that leave by the same socket */

        for (last = i + 1; last < n; last++) {
            if (msgs[last].from_len != msgs[i].from_len
                || ngx_memcmp(&msgs[last].from, from, msgs[i].from_len) != 0)
            {
                break;
            }
        }

        batch = last - i;

        for (k = 0; k < batch; k++) {
            iovs[k].iov_base = msgs[i + k].data;
            iovs[k].iov_len = msgs[i + k].len;

            ngx_memzero(&vec[k], sizeof(struct mmsghdr));

            vec[k].msg_hdr.msg_name = &msgs[i + k].to;
            vec[k].msg_hdr.msg_namelen = msgs[i + k].to_len;
            vec[k].msg_hdr.msg_iov = &iovs[k];
            vec[k].msg_hdr.msg_iovlen = 1;

            ngx_quic_set_control(&vec[k].msg_hdr, control[k],
                                 ls->wildcard ? from : NULL,
                                 msgs[i + k].nsegments > 1
                                     ? msgs[i + k].segment : 0,
                                 msgs[i + k].ecn);
        }

        rc = sendmmsg(ls->connection->fd, vec, batch, MSG_DONTWAIT);

        if (rc > 0) {

            for (k = 0; k < (ngx_uint_t) rc; k++) {
                c->sent += msgs[i + k].len;
            }

            ngx_log_debug3(NGX_LOG_DEBUG_EVENT, c->log, 0,
                           "quic sendmmsg: fd:%d %d of %ui",
                           ls->connection->fd, rc, batch);
            i += rc;
            continue;
        }

        err = ngx_socket_errno;

        if (err == NGX_EINTR) {
            continue;
        }

        if (err == NGX_EAGAIN || err == ENOBUFS) {
            ngx_log_debug0(NGX_LOG_DEBUG_EVENT, c->log, err,
                           "quic sendmmsg() not ready");
            ngx_quic_status->blocked++;
            *sent = i;
            return NGX_AGAIN;
        }

        ngx_quic_send_failed(c, &msgs[i], err);

        i++;
    }

    *sent = n;

    return NGX_OK;
}


/* the first message of a call failed for good */

static void
ngx_quic_send_failed(ngx_connection_t *c, ngx_quic_message_t *m, ngx_err_t err)
{
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    if (m->nsegments > 1 && (err == EIO || err == NGX_EINVAL)) {

        /*
         * Nothing can segment for this route, or a segment is too large for
         * it, or the address is gone: its datagrams one by one tell
         */

        err = ngx_quic_send_segments(c, m, err);

        if (err == 0) {
            return;
        }
    }

    switch (err) {

    case NGX_EAGAIN:
    case ENOBUFS:
        /* of a datagram in a train: what is lost now is lost as in a network */
        ngx_quic_status->blocked++;
        return;

    case EMSGSIZE:
        /* a probe for a larger MTU */
        ngx_log_debug1(NGX_LOG_DEBUG_EVENT, c->log, err,
                       "quic datagram of %uz octets is too large", m->segment);
        return;

    case EPERM:
    case NGX_ECONNREFUSED:
        /* a firewall's view, or an ICMP error of an earlier datagram */
        ngx_log_error(NGX_LOG_INFO, c->log, err, "quic sendmmsg() failed");
        return;

    case EADDRNOTAVAIL:
    case NGX_ENETDOWN:
    case NGX_ENETUNREACH:
    case NGX_EHOSTUNREACH:
    case NGX_EINVAL:
        /* the address or its route is gone: what is in flight moves at once */
        ngx_log_error(NGX_LOG_INFO, c->log, err, "quic sendmmsg() failed");

        if (qc && quiche_conn_is_multipath(qc->conn)) {
            quiche_conn_report_link_down(qc->conn,
                                         (struct sockaddr *) &m->from,
                                         m->from_len);
        }

        return;

    default:
        ngx_log_error(NGX_LOG_ALERT, c->log, err, "quic sendmmsg() failed");
    }
}


/*
 * Sends the datagrams of a train that the kernel refused as such. Returns 0, or
 * the error of the first one that cannot be sent either.
 */

static ngx_err_t
ngx_quic_send_segments(ngx_connection_t *c, ngx_quic_message_t *m,
    ngx_err_t err)
{
    size_t                  len;
    u_char                 *p;
    ssize_t                 n;
    struct iovec            iov;
    ngx_uint_t              level;
    struct msghdr           msg;
    struct sockaddr        *from;
    ngx_listening_t        *ls;
    ngx_quic_connection_t  *qc;

    static ngx_uint_t       warned;

    u_char                  control[NGX_QUIC_CONTROL_SIZE];

    qc = ngx_quic_get_connection(c);
    from = (struct sockaddr *) &m->from;

    ls = ngx_quic_find_listening(from, m->from_len);
    if (ls == NULL) {
        return EADDRNOTAVAIL;
    }

    for (p = m->data; p < m->data + m->len; p += len) {
        len = ngx_min(m->segment, (size_t) (m->data + m->len - p));

        iov.iov_base = p;
        iov.iov_len = len;

        ngx_memzero(&msg, sizeof(struct msghdr));
        msg.msg_name = &m->to;
        msg.msg_namelen = m->to_len;
        msg.msg_iov = &iov;
        msg.msg_iovlen = 1;

        ngx_quic_set_control(&msg, control, ls->wildcard ? from : NULL, 0,
                             m->ecn);

        do {
            n = sendmsg(ls->connection->fd, &msg, MSG_DONTWAIT);
        } while (n == -1 && ngx_socket_errno == NGX_EINTR);

        if (n == -1) {
            return ngx_socket_errno;
        }

        c->sent += len;

        if (qc->no_gso) {
            continue;
        }

        /* they go out alone, and only alone; another route may be better */

        qc->no_gso = 1;

        level = warned ? NGX_LOG_INFO : NGX_LOG_WARN;
        warned = 1;

        ngx_log_error(level, c->log, err,
                      "quic segmentation offload does not work on the way to "
                      "a client, \"quic_gso\" is ignored for its connection");
    }

    return 0;
}


static void
ngx_quic_set_control(struct msghdr *msg, u_char *control,
    struct sockaddr *from, size_t segment, u_char ecn)
{
    int              tos;
    size_t           len;
    uint16_t        *valp;
    struct cmsghdr  *cmsg;

    if (from == NULL && segment == 0 && ecn == 0) {
        return;
    }

    len = 0;

    msg->msg_control = control;
    msg->msg_controllen = NGX_QUIC_CONTROL_SIZE;

    ngx_memzero(control, msg->msg_controllen);

    cmsg = CMSG_FIRSTHDR(msg);

#if (NGX_HAVE_UDP_SEGMENT)

    if (segment) {
        cmsg->cmsg_level = SOL_UDP;
        cmsg->cmsg_type = UDP_SEGMENT;
        cmsg->cmsg_len = CMSG_LEN(sizeof(uint16_t));

        len += CMSG_SPACE(sizeof(uint16_t));

        valp = (void *) CMSG_DATA(cmsg);
        *valp = segment;

        cmsg = CMSG_NXTHDR(msg, cmsg);
    }

#endif

    if (ecn) {
        tos = ecn;

        cmsg->cmsg_level = IPPROTO_IP;
        cmsg->cmsg_type = IP_TOS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int));

#if (NGX_HAVE_INET6)
        if (!ngx_quic_is_ipv4(msg->msg_name)) {
            cmsg->cmsg_level = IPPROTO_IPV6;
            cmsg->cmsg_type = IPV6_TCLASS;
        }
#endif

        len += CMSG_SPACE(sizeof(int));

        ngx_memcpy(CMSG_DATA(cmsg), &tos, sizeof(int));

        cmsg = CMSG_NXTHDR(msg, cmsg);
    }

    if (from) {
        len += ngx_set_srcaddr_cmsg(cmsg, from);
    }

    msg->msg_controllen = len;
}


/* also in the form that IPv6 sockets have it in */

static ngx_uint_t
ngx_quic_is_ipv4(struct sockaddr *sa)
{
#if (NGX_HAVE_INET6)
    struct sockaddr_in6  *sin6;

    if (sa->sa_family == AF_INET6) {
        sin6 = (struct sockaddr_in6 *) sa;
        return IN6_IS_ADDR_V4MAPPED(&sin6->sin6_addr);
    }
#endif

    return 1;
}


/* an answer to a datagram that belongs to no connection */

ngx_int_t
ngx_quic_send_datagram(ngx_connection_t *c, u_char *data, size_t len)
{
    ngx_uint_t          sent;
    ngx_quic_message_t  m;

    m.data = data;
    m.len = len;
    m.segment = len;
    m.nsegments = 1;
    m.ecn = 0;

    ngx_memzero(&m.from, sizeof(m.from));
    ngx_memcpy(&m.from, c->local_sockaddr, c->local_socklen);
    m.from_len = c->local_socklen;

    ngx_memzero(&m.to, sizeof(m.to));
    ngx_memcpy(&m.to, c->sockaddr, c->socklen);
    m.to_len = c->socklen;

    return ngx_quic_send_messages(c, &m, 1, &sent);
}


static ngx_int_t
ngx_quic_keep_messages(ngx_connection_t *c, ngx_quic_message_t *msgs,
    ngx_uint_t n)
{
    size_t                  size;
    u_char                 *p;
    ngx_uint_t              i;
    ngx_quic_pending_t     *pending;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    size = 0;
    for (i = 0; i < n; i++) {
        size += msgs[i].len;
    }

    pending = ngx_alloc(sizeof(ngx_quic_pending_t) + size, c->log);
    if (pending == NULL) {
        return NGX_ERROR;
    }

    pending->nmessages = n;
    pending->current = 0;

    p = pending->data;

    for (i = 0; i < n; i++) {
        pending->messages[i] = msgs[i];
        pending->messages[i].data = p;
        p = ngx_cpymem(p, msgs[i].data, msgs[i].len);
    }

    qc->pending = pending;

    return NGX_OK;
}


static ngx_int_t
ngx_quic_send_pending(ngx_connection_t *c)
{
    ngx_int_t               rc;
    ngx_uint_t              sent;
    ngx_quic_pending_t     *pending;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);
    pending = qc->pending;

    rc = ngx_quic_send_messages(c, &pending->messages[pending->current],
                                pending->nmessages - pending->current, &sent);

    if (rc == NGX_AGAIN) {
        pending->current += sent;
        return NGX_AGAIN;
    }

    ngx_quic_free_pending(qc);

    return NGX_OK;
}


void
ngx_quic_free_pending(ngx_quic_connection_t *qc)
{
    if (qc->pending) {
        ngx_free(qc->pending);
        qc->pending = NULL;
    }
}
