
/*
 * Copyright (C) Nginx, Inc.
 * Copyright (C) 2026, the mpq authors
 *
 * Datagrams that belong to no connection: version negotiation, Retry,
 * stateless reset, or a new connection.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_quic_connection.h>


#define NGX_QUIC_RETRY_TOKEN_LIFETIME   3    /* seconds */
#define NGX_QUIC_RETRY_BUFFER_SIZE      256

/* RFC 9000, 5.2 and 10.3: smaller ones cannot be of a connection of ours */
#define NGX_QUIC_MIN_PKT_LEN            (21 + NGX_QUIC_CID_LEN)
#define NGX_QUIC_MIN_SR_PACKET          43   /* 5 random + 16 srt + 22 padding */
#define NGX_QUIC_MAX_SR_PACKET          1200


static ngx_int_t ngx_quic_negotiate_version(ngx_connection_t *c,
    ngx_quic_header_t *pkt);
static ngx_int_t ngx_quic_send_retry(ngx_connection_t *c,
    ngx_quic_conf_t *conf, ngx_quic_header_t *pkt);
static ngx_int_t ngx_quic_refuse(ngx_connection_t *c, ngx_quic_header_t *pkt,
    ngx_uint_t err, const char *reason);
static ngx_int_t ngx_quic_send_stateless_reset(ngx_connection_t *c,
    ngx_quic_conf_t *conf, ngx_quic_header_t *pkt, size_t size);
static ngx_int_t ngx_quic_stateless_reset_filter(ngx_connection_t *c);


/*
 * Reads the header of the datagram's first packet. The token stays in the
 * datagram. NGX_ABORT: an unknown version.
 */

ngx_int_t
ngx_quic_parse_header(ngx_quic_datagram_t *dgram, ngx_quic_header_t *pkt)
{
    size_t    n;
    u_char   *p, *end;
    uint64_t  len;

    p = dgram->data;
    end = p + dgram->len;

    ngx_memzero(pkt, sizeof(ngx_quic_header_t));

    if (p == end) {
        return NGX_ERROR;
    }

    if (!ngx_quic_long_pkt(*p)) {

        if (end - p < 1 + NGX_QUIC_CID_LEN) {
            return NGX_ERROR;
        }

        pkt->type = NGX_QUIC_PKT_SHORT;
        pkt->dcid_len = NGX_QUIC_CID_LEN;
        ngx_memcpy(pkt->dcid, p + 1, NGX_QUIC_CID_LEN);

        return NGX_OK;
    }

    if (end - p < 6) {
        return NGX_ERROR;
    }

    pkt->version = (uint32_t) p[1] << 24 | p[2] << 16 | p[3] << 8 | p[4];

    switch (*p & 0x30) {
    case 0x00:
        pkt->type = NGX_QUIC_PKT_INITIAL;
        break;
    case 0x10:
        pkt->type = NGX_QUIC_PKT_ZRTT;
        break;
    case 0x20:
        pkt->type = NGX_QUIC_PKT_HANDSHAKE;
        break;
    default:
        pkt->type = NGX_QUIC_PKT_RETRY;
    }

    p += 5;

    n = *p++;
    if (n > NGX_QUIC_MAX_CID_LEN || (size_t) (end - p) < n + 1) {
        return NGX_ERROR;
    }

    pkt->dcid_len = n;
    ngx_memcpy(pkt->dcid, p, n);
    p += n;

    n = *p++;
    if (n > NGX_QUIC_MAX_CID_LEN || (size_t) (end - p) < n) {
        return NGX_ERROR;
    }

    pkt->scid_len = n;
    ngx_memcpy(pkt->scid, p, n);
    p += n;

    if (pkt->version == 0) {
        /* clients do not negotiate */
        return NGX_ERROR;
    }

    if (!quiche_version_is_supported(pkt->version)) {
        return NGX_ABORT;
    }

    if (pkt->type != NGX_QUIC_PKT_INITIAL) {
        return NGX_OK;
    }

    if (p == end) {
        return NGX_ERROR;
    }

    n = (size_t) 1 << (*p >> 6);
    if ((size_t) (end - p) < n) {
        return NGX_ERROR;
    }

    len = *p++ & 0x3f;
    while (--n) {
        len = len << 8 | *p++;
    }

    if (len > (size_t) (end - p)) {
        return NGX_ERROR;
    }

    pkt->token.data = p;
    pkt->token.len = len;

    return NGX_OK;
}


/*
 * Decides about the first datagram of a client: NGX_OK to create a connection;
 * anything else if it was answered or is to be dropped.
 */

ngx_int_t
ngx_quic_admit(ngx_connection_t *c, ngx_quic_conf_t *conf,
    ngx_quic_header_t *pkt, size_t size)
{
    ngx_int_t            rc;
    ngx_quic_datagram_t  dgram;

    dgram.data = c->buffer->pos;
    dgram.len = size;

    c->log->action = "parsing quic packet";

    rc = ngx_quic_parse_header(&dgram, pkt);

    if (rc == NGX_ERROR) {
        ngx_log_debug0(NGX_LOG_DEBUG_EVENT, c->log, 0,
                       "quic malformed packet");
        return NGX_ERROR;
    }

    c->log->action = "handling quic packet";

    if (rc == NGX_ABORT) {

        if (size < NGX_QUIC_MIN_INITIAL_SIZE) {
            return NGX_ERROR;
        }

        return ngx_quic_negotiate_version(c, pkt);
    }

    if (pkt->type == NGX_QUIC_PKT_SHORT) {
        /* also of a worker that has died: it had the same key */
        return ngx_quic_send_stateless_reset(c, conf, pkt, size);
    }

    if (!(dgram.data[0] & 0x40)) {
        ngx_log_error(NGX_LOG_INFO, c->log, 0, "quic fixed bit is not set");
        return NGX_ERROR;
    }

    if (pkt->type != NGX_QUIC_PKT_INITIAL) {
        ngx_log_debug1(NGX_LOG_DEBUG_EVENT, c->log, 0,
                       "quic expected initial, got type %ui", pkt->type);
        return NGX_ERROR;
    }

    c->log->action = "handling initial packet";

    if (size < NGX_QUIC_MIN_INITIAL_SIZE) {
        /* RFC 9000, 14.1.  Initial Datagram Size */
        ngx_log_error(NGX_LOG_INFO, c->log, 0,
                      "quic UDP datagram is too small for initial packet");
        return NGX_ERROR;
    }

    if (pkt->dcid_len < NGX_QUIC_MIN_INITIAL_DCID_LEN) {
        /* RFC 9000, 7.2.  Negotiating Connection IDs */
        ngx_log_error(NGX_LOG_INFO, c->log, 0,
                      "quic too short dcid in initial packet: len:%uz",
                      pkt->dcid_len);
        return NGX_ERROR;
    }

    if (pkt->token.len) {

        rc = ngx_quic_validate_token(c, conf, pkt);

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }

        /* RFC 9000, 8.1.3: the client will not take another Retry */

        if (rc == NGX_DECLINED && pkt->retried) {
            return ngx_quic_refuse(c, pkt, NGX_QUIC_ERR_INVALID_TOKEN,
                                   "invalid address validation token");
        }

        if (rc == NGX_ABORT
            && pkt->dcid_len == NGX_QUIC_CID_LEN
            && pkt->token.len != NGX_QUIC_NEW_TOKEN_SIZE)
        {
            /* uses the ID that a Retry gave it */
            return ngx_quic_refuse(c, pkt, NGX_QUIC_ERR_INVALID_TOKEN,
                                   "cannot decrypt token");
        }

        if (rc != NGX_OK) {
            /*
             * RFC 9000, 8.1.3: a server SHOULD proceed as if there were no
             * valid token, which includes a Retry
             */
            pkt->odcid_len = 0;
        }
    }

    if (!pkt->validated && ngx_quic_wants_retry(conf)) {
        return ngx_quic_send_retry(c, conf, pkt);
    }

    if (ngx_terminate || ngx_exiting) {
        if (conf->retry == NGX_QUIC_RETRY_ON) {
            return ngx_quic_send_retry(c, conf, pkt);
        }

        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_quic_negotiate_version(ngx_connection_t *c, ngx_quic_header_t *pkt)
{
    ssize_t  n;
    u_char   buf[NGX_QUIC_RETRY_BUFFER_SIZE];

    ngx_log_error(NGX_LOG_INFO, c->log, 0,
                  "quic unsupported version: 0x%xD", pkt->version);

    n = quiche_negotiate_version(pkt->scid, pkt->scid_len,
                                 pkt->dcid, pkt->dcid_len, buf, sizeof(buf));
    if (n < 0) {
        return NGX_ERROR;
    }

    (void) ngx_quic_send_datagram(c, buf, n);

    return NGX_DONE;
}


static ngx_int_t
ngx_quic_send_retry(ngx_connection_t *c, ngx_quic_conf_t *conf,
    ngx_quic_header_t *pkt)
{
    ssize_t    n;
    ngx_str_t  token, scid;

    u_char     buf[NGX_QUIC_RETRY_BUFFER_SIZE];
    u_char     id[NGX_QUIC_CID_LEN];
    u_char     tbuf[NGX_QUIC_TOKEN_BUF_SIZE];

    /* what the client sends to it comes to this worker */

    if (ngx_quic_new_cid(c->log, id) != NGX_OK) {
        return NGX_ERROR;
    }

    scid.data = id;
    scid.len = NGX_QUIC_CID_LEN;

    token.data = tbuf;
    token.len = NGX_QUIC_TOKEN_BUF_SIZE;

    if (ngx_quic_new_token(c->log, c->sockaddr, c->socklen, conf, &token,
                           pkt->dcid, pkt->dcid_len,
                           ngx_time() + NGX_QUIC_RETRY_TOKEN_LIFETIME, &scid)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    n = quiche_retry(pkt->scid, pkt->scid_len, pkt->dcid, pkt->dcid_len,
                     id, NGX_QUIC_CID_LEN, token.data, token.len,
                     pkt->version, buf, sizeof(buf));
    if (n < 0) {
        ngx_log_error(NGX_LOG_ALERT, c->log, 0, "quiche_retry() failed: %z", n);
        return NGX_ERROR;
    }

    if (ngx_quic_send_datagram(c, buf, n) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_quic_status->retries++;

    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, c->log, 0,
                   "quic retry packet sent to %*xs", pkt->scid_len, pkt->scid);

    return NGX_DONE;
}


/* RFC 9000, 10.2.3: in an Initial packet, and nothing is kept */

static ngx_int_t
ngx_quic_refuse(ngx_connection_t *c, ngx_quic_header_t *pkt, ngx_uint_t err,
    const char *reason)
{
    ssize_t  n;
    u_char   buf[NGX_QUIC_RETRY_BUFFER_SIZE];

    n = quiche_refuse(pkt->scid, pkt->scid_len, pkt->dcid, pkt->dcid_len,
                      pkt->version, err, (u_char *) reason, ngx_strlen(reason),
                      buf, sizeof(buf));
    if (n < 0) {
        ngx_log_error(NGX_LOG_ALERT, c->log, 0, "quiche_refuse() failed: %z",
                      n);
        return NGX_ERROR;
    }

    (void) ngx_quic_send_datagram(c, buf, n);

    return NGX_DONE;
}


static ngx_int_t
ngx_quic_send_stateless_reset(ngx_connection_t *c, ngx_quic_conf_t *conf,
    ngx_quic_header_t *pkt, size_t size)
{
    size_t    len, max;
    uint16_t  rnd;
    u_char    buf[NGX_QUIC_MAX_SR_PACKET];

    if (size <= NGX_QUIC_MIN_PKT_LEN) {
        ngx_quic_status->dropped++;
        return NGX_DECLINED;
    }

    if (ngx_quic_stateless_reset_filter(c) != NGX_OK) {
        ngx_quic_status->dropped++;
        return NGX_DECLINED;
    }

    /* shorter than what caused it, so that two ends do not go on for ever */

    if (size <= NGX_QUIC_MIN_SR_PACKET) {
        len = size - 1;

    } else {
        max = ngx_min(NGX_QUIC_MAX_SR_PACKET, size);

        if (RAND_bytes((u_char *) &rnd, sizeof(rnd)) != 1) {
            return NGX_ERROR;
        }

        len = (rnd % (max - NGX_QUIC_MIN_SR_PACKET)) + NGX_QUIC_MIN_SR_PACKET;
    }

    if (RAND_bytes(buf, len - NGX_QUIC_SR_TOKEN_LEN) != 1) {
        return NGX_ERROR;
    }

    buf[0] = (buf[0] & 0x3f) | 0x40;

    if (ngx_quic_new_sr_token(c->log, pkt->dcid, pkt->dcid_len,
                              conf->sr_token_key,
                              &buf[len - NGX_QUIC_SR_TOKEN_LEN])
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_log_debug0(NGX_LOG_DEBUG_EVENT, c->log, 0,
                   "quic stateless reset sent");

    ngx_quic_status->resets++;

    (void) ngx_quic_send_datagram(c, buf, len);

    return NGX_DECLINED;
}


/* about one reset for each address and second, in constant memory */

static ngx_int_t
ngx_quic_stateless_reset_filter(ngx_connection_t *c)
{
    time_t      now;
    u_char      salt;
    ngx_uint_t  i, n, m, hit;
    u_char      hash[20];

    static time_t   t;
    static u_char   rndbyte;
    static uint8_t  bitmap[65536];

    now = ngx_time();

    if (t != now) {
        t = now;

        if (RAND_bytes(&rndbyte, 1) != 1) {
            return NGX_ERROR;
        }

        ngx_memzero(bitmap, sizeof(bitmap));
    }

    hit = 0;

    for (i = 0; i < 3; i++) {
        salt = rndbyte + i;

        ngx_quic_address_hash(c->sockaddr, c->socklen, 0, &salt, 1, hash);

        n = hash[0] | hash[1] << 8;
        m = 1 << hash[2] % 8;

        if (!(bitmap[n] & m)) {
            bitmap[n] |= m;

        } else {
            hit++;
        }
    }

    if (hit == 3) {
        return NGX_DECLINED;
    }

    return NGX_OK;
}
