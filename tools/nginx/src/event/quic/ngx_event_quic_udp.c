
/*
 * Copyright (C) Roman Arutyunyan
 * Copyright (C) Nginx, Inc.
 * Copyright (C) 2026, the mpq authors
 *
 * Datagrams in. A datagram finds its connection by Destination Connection ID
 * alone, whatever socket and address it came to: that is how the paths to other
 * addresses of the server find their connection.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_quic_connection.h>


/* datagrams taken by one system call */
#define NGX_QUIC_RECV_BATCH  16

/* of the type of service, or the traffic class */
#define NGX_QUIC_ECN_MASK  3

/* times that, for each socket, at exit */
#define NGX_QUIC_LAST_BATCHES  4096


static void ngx_quic_ask_for_ecn(ngx_listening_t *ls, ngx_log_t *log);
static ngx_int_t ngx_quic_read_control(ngx_listening_t *ls,
    struct msghdr *msg, ngx_quic_datagram_t *dgram);


/* this worker's listening sockets, of ngx_listening_t * */
static ngx_array_t  ngx_quic_listeners;


ngx_int_t
ngx_quic_init_listeners(ngx_cycle_t *cycle)
{
    ngx_uint_t         i;
    ngx_listening_t   *ls, **lsp;

    if (ngx_array_init(&ngx_quic_listeners, cycle->pool, 4,
                       sizeof(ngx_listening_t *))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ls = cycle->listening.elts;
    for (i = 0; i < cycle->listening.nelts; i++) {

        if (!ls[i].quic) {
            continue;
        }

#if (NGX_HAVE_REUSEPORT)
        if (ls[i].reuseport && ls[i].worker != ngx_worker) {

            /*
             * Once its worker is gone, the kernel still gives datagrams to a
             * socket that somebody has open, and nobody reads them.
             */

            if (ngx_process == NGX_PROCESS_WORKER
                && ls[i].fd != (ngx_socket_t) -1)
            {
                if (ngx_close_socket(ls[i].fd) == -1) {
                    ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_socket_errno,
                                  ngx_close_socket_n " %V failed",
                                  &ls[i].addr_text);
                }

                ls[i].fd = (ngx_socket_t) -1;
            }

            continue;
        }
#endif

        lsp = ngx_array_push(&ngx_quic_listeners);
        if (lsp == NULL) {
            return NGX_ERROR;
        }

        *lsp = &ls[i];

        ngx_quic_ask_for_ecn(&ls[i], cycle->log);
    }

    return NGX_OK;
}


/* what the kernel does not tell about a datagram counts as not marked */

static void
ngx_quic_ask_for_ecn(ngx_listening_t *ls, ngx_log_t *log)
{
    int  on;

    on = 1;

    if (ls->fd == (ngx_socket_t) -1) {
        return;
    }

#if (NGX_HAVE_INET6)

    if (ls->sockaddr->sa_family == AF_INET6
        && setsockopt(ls->fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof(int))
           == -1)
    {
        ngx_log_error(NGX_LOG_INFO, log, ngx_socket_errno,
                      "setsockopt(IPV6_RECVTCLASS) for %V failed, ignored",
                      &ls->addr_text);
    }

#endif

    /* IPv6 sockets may get IPv4 as well */

    if (setsockopt(ls->fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(int)) == -1
        && ls->sockaddr->sa_family == AF_INET)
    {
        ngx_log_error(NGX_LOG_INFO, log, ngx_socket_errno,
                      "setsockopt(IP_RECVTOS) for %V failed, ignored",
                      &ls->addr_text);
    }
}


ngx_listening_t *
ngx_quic_find_listening(struct sockaddr *local, socklen_t len)
{
    ngx_uint_t         i;
    ngx_listening_t  **ls, *wildcard;

    wildcard = NULL;

    ls = ngx_quic_listeners.elts;
    for (i = 0; i < ngx_quic_listeners.nelts; i++) {

        if (ls[i]->wildcard) {

            if (ls[i]->sockaddr->sa_family == local->sa_family
                && ngx_inet_get_port(ls[i]->sockaddr)
                   == ngx_inet_get_port(local))
            {
                wildcard = ls[i];
            }

            continue;
        }

        if (ngx_cmp_sockaddr(ls[i]->sockaddr, ls[i]->socklen, local, len, 1)
            == NGX_OK)
        {
            return ls[i];
        }
    }

    return wildcard;
}


void
ngx_quic_recvmsg(ngx_event_t *ev)
{
    int                   n, i;
    ngx_err_t             err;
    ngx_listening_t      *ls;
    ngx_event_conf_t     *ecf;
    ngx_connection_t     *lc;
    ngx_quic_datagram_t   dgram;

    static u_char          buffers[NGX_QUIC_RECV_BATCH]
                                  [NGX_QUIC_MAX_UDP_PAYLOAD_SIZE];
    static struct iovec    iovs[NGX_QUIC_RECV_BATCH];
    static struct mmsghdr  msgs[NGX_QUIC_RECV_BATCH];
    static ngx_sockaddr_t  from[NGX_QUIC_RECV_BATCH];
    static u_char          control[NGX_QUIC_RECV_BATCH]
                                  [CMSG_SPACE(sizeof(ngx_addrinfo_t))
                                   + CMSG_SPACE(sizeof(int))];

    if (ev->timedout) {
        if (ngx_enable_accept_events((ngx_cycle_t *) ngx_cycle) != NGX_OK) {
            return;
        }

        ev->timedout = 0;
    }

    ecf = ngx_event_get_conf(ngx_cycle->conf_ctx, ngx_event_core_module);

    lc = ev->data;
    ls = lc->listening;
    ev->ready = 0;

    ngx_log_debug1(NGX_LOG_DEBUG_EVENT, ev->log, 0,
                   "quic recvmsg on %V", &ls->addr_text);

    do {
        for (i = 0; i < NGX_QUIC_RECV_BATCH; i++) {
            iovs[i].iov_base = buffers[i];
            iovs[i].iov_len = NGX_QUIC_MAX_UDP_PAYLOAD_SIZE;

            ngx_memzero(&msgs[i], sizeof(struct mmsghdr));

            msgs[i].msg_hdr.msg_name = &from[i];
            msgs[i].msg_hdr.msg_namelen = sizeof(ngx_sockaddr_t);
            msgs[i].msg_hdr.msg_iov = &iovs[i];
            msgs[i].msg_hdr.msg_iovlen = 1;

            msgs[i].msg_hdr.msg_control = control[i];
            msgs[i].msg_hdr.msg_controllen = sizeof(control[i]);
        }

        n = recvmmsg(lc->fd, msgs, NGX_QUIC_RECV_BATCH, MSG_DONTWAIT, NULL);

        if (n == -1) {
            err = ngx_socket_errno;

            if (err == NGX_EAGAIN || err == NGX_EINTR) {
                ngx_log_debug0(NGX_LOG_DEBUG_EVENT, ev->log, err,
                               "quic recvmmsg() not ready");
                ev->ready = 0;
                return;
            }

            ngx_log_error(NGX_LOG_ALERT, ev->log, err,
                          "quic recvmmsg() failed");
            ev->ready = 0;
            return;
        }

        for (i = 0; i < n; i++) {

            if (msgs[i].msg_hdr.msg_flags & (MSG_TRUNC|MSG_CTRUNC)) {
                ngx_log_error(NGX_LOG_ALERT, ev->log, 0,
                              "quic recvmmsg() truncated data");
                ngx_quic_status->dropped++;
                continue;
            }

            dgram.data = buffers[i];
            dgram.len = msgs[i].msg_len;

            dgram.from_len = ngx_min(msgs[i].msg_hdr.msg_namelen,
                                     (socklen_t) sizeof(ngx_sockaddr_t));
            ngx_memcpy(&dgram.from, &from[i], dgram.from_len);

            if (ngx_quic_read_control(ls, &msgs[i].msg_hdr, &dgram) != NGX_OK) {
                ngx_quic_status->dropped++;
                continue;
            }

            ngx_quic_dispatch(ls, &dgram, NGX_QUIC_HOP_NONE);
        }

        ev->ready = (n == NGX_QUIC_RECV_BATCH);

    } while (n == NGX_QUIC_RECV_BATCH && ecf->multi_accept);
}


/*
 * What the datagram was marked with, and the address that it was sent to, which
 * is not the socket's if that is a wildcard
 */

static ngx_int_t
ngx_quic_read_control(ngx_listening_t *ls, struct msghdr *msg,
    ngx_quic_datagram_t *dgram)
{
    struct cmsghdr  *cmsg;
#if (NGX_HAVE_INET6)
    int              tclass;
#endif

    /* quiche knows no others, and "listen unix:... quic" would get here */

    switch (dgram->from.sockaddr.sa_family) {
    case AF_INET:
#if (NGX_HAVE_INET6)
    case AF_INET6:
#endif
        break;
    default:
        return NGX_DECLINED;
    }

    dgram->to_len = ls->socklen;
    ngx_memcpy(&dgram->to, ls->sockaddr, ls->socklen);

    dgram->ecn = 0;

    for (cmsg = CMSG_FIRSTHDR(msg);
         cmsg != NULL;
         cmsg = CMSG_NXTHDR(msg, cmsg))
    {
        if (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_TOS) {
            dgram->ecn = *CMSG_DATA(cmsg) & NGX_QUIC_ECN_MASK;
            continue;
        }

#if (NGX_HAVE_INET6)
        if (cmsg->cmsg_level == IPPROTO_IPV6
            && cmsg->cmsg_type == IPV6_TCLASS)
        {
            ngx_memcpy(&tclass, CMSG_DATA(cmsg), sizeof(int));
            dgram->ecn = tclass & NGX_QUIC_ECN_MASK;
            continue;
        }
#endif

#if (NGX_HAVE_ADDRINFO_CMSG)
        if (ls->wildcard) {
            (void) ngx_get_srcaddr_cmsg(cmsg, &dgram->to.sockaddr);
        }
#endif
    }

    return NGX_OK;
}


/* at exit: what is in the sockets already, which other workers may not have */

void
ngx_quic_drain_listeners(void)
{
    int                n;
    ngx_uint_t         i;
    ngx_event_t       *rev;
    ngx_listening_t  **ls;

    ls = ngx_quic_listeners.elts;
    for (i = 0; i < ngx_quic_listeners.nelts; i++) {

        if (ls[i]->connection == NULL) {
            continue;
        }

        rev = ls[i]->connection->read;

        for (n = 0; n < NGX_QUIC_LAST_BATCHES; n++) {

            rev->ready = 0;
            ngx_quic_recvmsg(rev);

            if (!rev->ready) {
                break;
            }
        }
    }
}


/* "hops": NGX_QUIC_HOP_... */

void
ngx_quic_dispatch(ngx_listening_t *ls, ngx_quic_datagram_t *dgram,
    ngx_uint_t hops)
{
    u_char            *p, *dcid;
    size_t             len;
    ngx_int_t          rc;
    ngx_log_t         *log;
    ngx_connection_t  *c;

    log = ls->connection->log;
    p = dgram->data;

    if (dgram->len == 0) {
        return;
    }

    if (ngx_quic_long_pkt(p[0])) {

        if (dgram->len < 6 || dgram->len < (size_t) 6 + p[5]) {
            ngx_log_debug0(NGX_LOG_DEBUG_EVENT, log, 0,
                           "quic datagram is too short");
            ngx_quic_status->dropped++;
            return;
        }

        len = p[5];
        dcid = &p[6];

    } else {

        if (dgram->len < 1 + NGX_QUIC_CID_LEN) {
            ngx_log_debug0(NGX_LOG_DEBUG_EVENT, log, 0,
                           "quic datagram is too short");
            ngx_quic_status->dropped++;
            return;
        }

        len = NGX_QUIC_CID_LEN;
        dcid = &p[1];
    }

    c = ngx_quic_find_connection(dcid, len);

    if (c) {
        ngx_quic_input(c, dgram);
        return;
    }

    if (hops == NGX_QUIC_HOP_NONE && len == NGX_QUIC_CID_LEN) {

        rc = ngx_quic_hand_over(dgram, dcid, log);

        if (rc == NGX_OK) {
            return;
        }

        if (rc == NGX_DONE) {
            hops = NGX_QUIC_HOP_OWNER;
        }
    }

    /*
     * A first flight, perhaps with the Source Connection ID of our Retry. It
     * has found its worker if the ID leads here, but not one that goes on.
     */

    if (ngx_quic_long_pkt(p[0])
        && (hops == NGX_QUIC_HOP_NONE || ngx_exiting || ngx_terminate)
        && ngx_quic_hand_over_client(ls, dgram, dcid, len, log) == NGX_OK)
    {
        return;
    }

    ngx_quic_accept(ls, dgram);
}
