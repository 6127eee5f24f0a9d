
/*
 * Copyright (C) Nginx, Inc.
 * Copyright (C) 2026, the mpq authors
 *
 * Keys and tokens. Formats and labels are those of nginx 1.28, so that tokens
 * for later connections remain valid at the other with the same quic_host_key;
 * but a reset token does not depend on the worker, see ngx_quic_admit(), and a
 * Retry token is good for a client only that uses the connection ID of the
 * Retry. Without quic_host_key, a Retry token outlives a reload: its client
 * takes no second Retry.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_sha1.h>
#include <openssl/hkdf.h>
#include <ngx_event_quic_connection.h>


#define NGX_QUIC_AES_256_GCM_IV_LEN   12
#define NGX_QUIC_AES_256_GCM_TAG_LEN  16

#define NGX_QUIC_NEW_TOKEN_LIFETIME   600   /* seconds */


static ngx_int_t ngx_quic_open_token(ngx_connection_t *c, u_char *key,
    ngx_str_t *token, u_char *ad, size_t ad_len, u_char *out, size_t *len);


/* of the master, shared by all its configurations and by other binaries */
u_char  ngx_quic_retry_key[NGX_QUIC_AV_KEY_LEN];


ngx_int_t
ngx_quic_derive_key(ngx_log_t *log, const char *label, ngx_str_t *secret,
    ngx_str_t *salt, u_char *out, size_t len)
{
    size_t         is_len, info_len;
    uint8_t       *p;
    const EVP_MD  *digest;

    uint8_t        is[EVP_MAX_MD_SIZE];
    uint8_t        info[20];

    digest = EVP_sha256();

    if (HKDF_extract(is, &is_len, digest, secret->data, secret->len,
                     salt->data, salt->len)
        != 1)
    {
        ngx_ssl_error(NGX_LOG_INFO, log, 0, "HKDF_extract(%s) failed", label);
        return NGX_ERROR;
    }

    info[0] = 0;
    info[1] = len;
    info[2] = ngx_strlen(label);

    info_len = 2 + 1 + info[2] + 1;

    if (info_len >= sizeof(info)) {
        ngx_log_error(NGX_LOG_INFO, log, 0,
                      "quic key label \"%s\" is too long", label);
        return NGX_ERROR;
    }

    p = ngx_cpymem(&info[3], label, info[2]);
    *p = '\0';

    if (HKDF_expand(out, len, digest, is, is_len, info, info_len) != 1) {
        ngx_ssl_error(NGX_LOG_INFO, log, 0, "HKDF_expand(%s) failed", label);
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_int_t
ngx_quic_new_sr_token(ngx_log_t *log, u_char *id, size_t len, u_char *secret,
    u_char *token)
{
    ngx_str_t  cid, key;

    key.data = secret;
    key.len = NGX_QUIC_SR_KEY_LEN;

    cid.data = id;
    cid.len = len;

    return ngx_quic_derive_key(log, "sr_token_key", &key, &cid, token,
                               NGX_QUIC_SR_TOKEN_LEN);
}


void
ngx_quic_address_hash(struct sockaddr *sockaddr, socklen_t socklen,
    ngx_uint_t no_port, u_char *salt, size_t saltlen, u_char *hash)
{
    size_t                len;
    u_char               *data;
    ngx_sha1_t            sha1;
    struct sockaddr_in   *sin;
#if (NGX_HAVE_INET6)
    struct sockaddr_in6  *sin6;
#endif

    len = (size_t) socklen;
    data = (u_char *) sockaddr;

    if (no_port) {
        switch (sockaddr->sa_family) {

#if (NGX_HAVE_INET6)
        case AF_INET6:
            sin6 = (struct sockaddr_in6 *) sockaddr;

            len = sizeof(struct in6_addr);
            data = sin6->sin6_addr.s6_addr;

            break;
#endif

        case AF_INET:
            sin = (struct sockaddr_in *) sockaddr;

            len = sizeof(in_addr_t);
            data = (u_char *) &sin->sin_addr;

            break;
        }
    }

    ngx_sha1_init(&sha1);
    ngx_sha1_update(&sha1, data, len);

    if (salt) {
        ngx_sha1_update(&sha1, salt, saltlen);
    }

    ngx_sha1_final(hash, &sha1);
}


/* for a Retry with the Source Connection ID "retry_scid"; NULL for NEW_TOKEN */

ngx_int_t
ngx_quic_new_token(ngx_log_t *log, struct sockaddr *sockaddr,
    socklen_t socklen, ngx_quic_conf_t *conf, ngx_str_t *token, u_char *odcid,
    size_t odcid_len, time_t expires, ngx_str_t *retry_scid)
{
    u_char        *p, *key;
    size_t         len;
    ngx_uint_t     is_retry;
    EVP_AEAD_CTX   ctx;

    u_char         in[NGX_QUIC_MAX_TOKEN_SIZE];

    is_retry = (retry_scid != NULL);

    key = (is_retry && conf->random_host_key) ? ngx_quic_retry_key
                                              : conf->av_token_key;

    ngx_quic_address_hash(sockaddr, socklen, !is_retry, NULL, 0, in);

    p = in + 20;
    p = ngx_cpymem(p, &expires, sizeof(time_t));

    *p++ = is_retry ? 1 : 0;
    *p++ = (u_char) odcid_len;
    p = ngx_cpymem(p, odcid, odcid_len);

    if (RAND_bytes(token->data, NGX_QUIC_AES_256_GCM_IV_LEN) != 1) {
        return NGX_ERROR;
    }

    if (EVP_AEAD_CTX_init(&ctx, EVP_aead_aes_256_gcm(), key,
                          NGX_QUIC_AV_KEY_LEN, NGX_QUIC_AES_256_GCM_TAG_LEN,
                          NULL)
        != 1)
    {
        ngx_ssl_error(NGX_LOG_ALERT, log, 0, "EVP_AEAD_CTX_init() failed");
        return NGX_ERROR;
    }

    if (EVP_AEAD_CTX_seal(&ctx, token->data + NGX_QUIC_AES_256_GCM_IV_LEN, &len,
                          token->len - NGX_QUIC_AES_256_GCM_IV_LEN,
                          token->data, NGX_QUIC_AES_256_GCM_IV_LEN,
                          in, p - in,
                          is_retry ? retry_scid->data : NULL,
                          is_retry ? retry_scid->len : 0)
        != 1)
    {
        ngx_ssl_error(NGX_LOG_ALERT, log, 0, "EVP_AEAD_CTX_seal() failed");
        EVP_AEAD_CTX_cleanup(&ctx);
        return NGX_ERROR;
    }

    token->len = NGX_QUIC_AES_256_GCM_IV_LEN + len;

    EVP_AEAD_CTX_cleanup(&ctx);

    return NGX_OK;
}


/* spares the client a Retry when it comes back from this address */

ngx_int_t
ngx_quic_send_new_token(ngx_connection_t *c, struct sockaddr *sockaddr,
    socklen_t socklen)
{
    ngx_str_t               token;
    ngx_quic_connection_t  *qc;

    u_char                  tbuf[NGX_QUIC_TOKEN_BUF_SIZE];

    qc = ngx_quic_get_connection(c);

    if (qc->returning || !ngx_quic_wants_retry(qc->conf)) {
        /* or ngx_quic_tell_returning() does */
        return NGX_OK;
    }

    token.data = tbuf;
    token.len = NGX_QUIC_TOKEN_BUF_SIZE;

    if (ngx_quic_new_token(c->log, sockaddr, socklen, qc->conf, &token, tbuf, 0,
                           ngx_time() + NGX_QUIC_NEW_TOKEN_LIFETIME, NULL)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (quiche_conn_send_new_token(qc->conn, token.data, token.len) != 0) {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * NGX_OK: the client's address is valid; NGX_ABORT: not a token of ours;
 * NGX_DECLINED: ours, but expired or of another client.
 */

ngx_int_t
ngx_quic_validate_token(ngx_connection_t *c, ngx_quic_conf_t *conf,
    ngx_quic_header_t *pkt)
{
    size_t         len;
    u_char        *p, *key;
    time_t         expires;
    ngx_int_t      rc;

    u_char         addr_hash[20];
    u_char         data[NGX_QUIC_TOKEN_BUF_SIZE];

    if (pkt->token.len == NGX_QUIC_RETURNING_TOKEN_SIZE) {
        return ngx_quic_validate_returning(c, conf, pkt);
    }

    if (pkt->token.len < NGX_QUIC_AES_256_GCM_IV_LEN
                         + NGX_QUIC_AES_256_GCM_TAG_LEN
        || pkt->token.len > NGX_QUIC_TOKEN_BUF_SIZE)
    {
        goto garbage;
    }

    key = conf->random_host_key ? ngx_quic_retry_key : conf->av_token_key;

    rc = ngx_quic_open_token(c, key, &pkt->token, pkt->dcid, pkt->dcid_len,
                             data, &len);
    pkt->retried = (rc == NGX_OK);

    if (rc == NGX_DECLINED) {
        rc = ngx_quic_open_token(c, conf->av_token_key, &pkt->token, NULL, 0,
                                 data, &len);
    }

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (rc != NGX_OK) {
        goto garbage;
    }

    if (len < sizeof(addr_hash) + sizeof(time_t) + 2) {
        goto garbage;
    }

    p = data + sizeof(addr_hash);

    ngx_memcpy(&expires, p, sizeof(time_t));
    p += sizeof(time_t);

    if (*p++ != pkt->retried) {
        goto garbage;
    }

    ngx_quic_address_hash(c->sockaddr, c->socklen, !pkt->retried, NULL, 0,
                          addr_hash);

    if (ngx_memcmp(data, addr_hash, sizeof(addr_hash)) != 0) {
        goto bad_token;
    }

    pkt->odcid_len = *p++;

    if (pkt->odcid_len > NGX_QUIC_MAX_CID_LEN
        || pkt->odcid_len > (size_t) (data + len - p))
    {
        goto bad_token;
    }

    ngx_memcpy(pkt->odcid, p, pkt->odcid_len);

    if (ngx_time() > expires) {
        ngx_log_error(NGX_LOG_INFO, c->log, 0, "quic expired token");
        return NGX_DECLINED;
    }

    pkt->validated = 1;

    return NGX_OK;

garbage:

    pkt->retried = 0;

    ngx_log_error(NGX_LOG_INFO, c->log, 0, "quic garbage token");

    return NGX_ABORT;

bad_token:

    ngx_log_error(NGX_LOG_INFO, c->log, 0, "quic invalid token");

    return NGX_DECLINED;
}


/* NGX_DECLINED: not sealed with this key and associated data */

static ngx_int_t
ngx_quic_open_token(ngx_connection_t *c, u_char *key, ngx_str_t *token,
    u_char *ad, size_t ad_len, u_char *out, size_t *len)
{
    int           rc;
    EVP_AEAD_CTX  ctx;

    if (EVP_AEAD_CTX_init(&ctx, EVP_aead_aes_256_gcm(), key,
                          NGX_QUIC_AV_KEY_LEN, NGX_QUIC_AES_256_GCM_TAG_LEN,
                          NULL)
        != 1)
    {
        ngx_ssl_error(NGX_LOG_ALERT, c->log, 0, "EVP_AEAD_CTX_init() failed");
        return NGX_ERROR;
    }

    rc = EVP_AEAD_CTX_open(&ctx, out, len, NGX_QUIC_TOKEN_BUF_SIZE,
                           token->data, NGX_QUIC_AES_256_GCM_IV_LEN,
                           token->data + NGX_QUIC_AES_256_GCM_IV_LEN,
                           token->len - NGX_QUIC_AES_256_GCM_IV_LEN,
                           ad, ad_len);

    EVP_AEAD_CTX_cleanup(&ctx);

    if (rc != 1) {
        ERR_clear_error();
        return NGX_DECLINED;
    }

    return NGX_OK;
}
