
/*
 * Copyright (C) 2026, the mpq authors
 *
 *     quic_qoe on | off;
 *
 * What a player says of itself with each request goes to the scheduler: Common
 * Media Client Data (CTA-5004) in the header fields CMCD-Request, CMCD-Object
 * and CMCD-Status, or in the argument CMCD; and how long a response will be.
 *
 * nginx looks up each field of a request by its name anyway, so those that have
 * none of these cost nothing for them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* which variable */
#define NGX_HTTP_QUIC_QOE_BUFFER      0
#define NGX_HTTP_QUIC_QOE_BITRATE     1
#define NGX_HTTP_QUIC_QOE_DEADLINE    2
#define NGX_HTTP_QUIC_QOE_THROUGHPUT  3
#define NGX_HTTP_QUIC_QOE_STALLED     4


typedef struct {
    ngx_flag_t                 enable;
} ngx_http_quic_qoe_srv_conf_t;


static ngx_int_t ngx_http_quic_qoe_header(ngx_http_request_t *r,
    ngx_table_elt_t *h, ngx_uint_t offset);
static ngx_int_t ngx_http_quic_qoe_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_quic_qoe_filter(ngx_http_request_t *r);
static ngx_int_t ngx_http_quic_qoe_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_quic_qoe_add_variables(ngx_conf_t *cf);
static void *ngx_http_quic_qoe_create_srv_conf(ngx_conf_t *cf);
static char *ngx_http_quic_qoe_merge_srv_conf(ngx_conf_t *cf, void *parent,
    void *child);
static ngx_int_t ngx_http_quic_qoe_init(ngx_conf_t *cf);
static ngx_int_t ngx_http_quic_qoe_add_headers(ngx_conf_t *cf,
    ngx_http_core_main_conf_t *cmcf);


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;


static ngx_http_header_t  ngx_http_quic_qoe_headers[] = {

    { ngx_string("CMCD-Object"), 0, ngx_http_quic_qoe_header },
    { ngx_string("CMCD-Request"), 0, ngx_http_quic_qoe_header },
    { ngx_string("CMCD-Status"), 0, ngx_http_quic_qoe_header },

    { ngx_null_string, 0, NULL }
};


static ngx_http_variable_t  ngx_http_quic_qoe_vars[] = {

    { ngx_string("quic_qoe_buffer_ms"), NULL, ngx_http_quic_qoe_variable,
      NGX_HTTP_QUIC_QOE_BUFFER, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("quic_qoe_bitrate_kbps"), NULL, ngx_http_quic_qoe_variable,
      NGX_HTTP_QUIC_QOE_BITRATE, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("quic_qoe_deadline_ms"), NULL, ngx_http_quic_qoe_variable,
      NGX_HTTP_QUIC_QOE_DEADLINE, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("quic_qoe_throughput_kbps"), NULL, ngx_http_quic_qoe_variable,
      NGX_HTTP_QUIC_QOE_THROUGHPUT, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("quic_qoe_stalled"), NULL, ngx_http_quic_qoe_variable,
      NGX_HTTP_QUIC_QOE_STALLED, NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


static ngx_command_t  ngx_http_quic_qoe_commands[] = {

    { ngx_string("quic_qoe"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_SRV_CONF_OFFSET,
      offsetof(ngx_http_quic_qoe_srv_conf_t, enable),
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_quic_qoe_module_ctx = {
    ngx_http_quic_qoe_add_variables,       /* preconfiguration */
    ngx_http_quic_qoe_init,                /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    ngx_http_quic_qoe_create_srv_conf,     /* create server configuration */
    ngx_http_quic_qoe_merge_srv_conf,      /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_http_quic_qoe_module = {
    NGX_MODULE_V1,
    &ngx_http_quic_qoe_module_ctx,         /* module context */
    ngx_http_quic_qoe_commands,            /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_uint_t
ngx_http_quic_qoe_enabled(ngx_http_request_t *r)
{
    ngx_http_quic_qoe_srv_conf_t  *qscf;

    qscf = ngx_http_get_module_srv_conf(r, ngx_http_quic_qoe_module);

    return qscf->enable;
}


static void
ngx_http_quic_qoe_read(ngx_http_request_t *r, ngx_str_t *value, int is_query)
{
    ngx_quic_stream_t    *qs;
    ngx_quic_playback_t   playback;

    qs = r->connection->quic;

    if (qs->playback) {
        (void) ngx_quic_read_cmcd(qs->playback, value->data, value->len,
                                  is_query);
        return;
    }

    ngx_memzero(&playback, sizeof(ngx_quic_playback_t));

    playback.buffer_ms = -1;
    playback.bitrate_kbps = -1;
    playback.deadline_ms = -1;
    playback.throughput_kbps = -1;

    if (!ngx_quic_read_cmcd(&playback, value->data, value->len, is_query)) {
        return;
    }

    /* it lives as long as the stream: an internal redirect forgets contexts */

    qs->playback = ngx_palloc(r->connection->pool, sizeof(ngx_quic_playback_t));

    if (qs->playback) {
        *qs->playback = playback;
    }
}


/* of HTTP/1.1 and HTTP/2, too */

static ngx_int_t
ngx_http_quic_qoe_header(ngx_http_request_t *r, ngx_table_elt_t *h,
    ngx_uint_t offset)
{
    if (r->connection->quic && ngx_http_quic_qoe_enabled(r)) {
        ngx_http_quic_qoe_read(r, &h->value, 0);
    }

    return NGX_OK;
}


/* once for each request: what comes after an internal redirect is a later phase */

static ngx_int_t
ngx_http_quic_qoe_handler(ngx_http_request_t *r)
{
    ngx_quic_stream_t  *qs;

    qs = r->connection->quic;

    if (qs == NULL || (qs->playback == NULL && r->args.len == 0)) {
        return NGX_DECLINED;
    }

    if (!ngx_http_quic_qoe_enabled(r)) {
        /* "Host" came after what was read, and led to another server */
        qs->playback = NULL;
        return NGX_DECLINED;
    }

    if (qs->playback == NULL) {
        ngx_http_quic_qoe_read(r, &r->args, 1);
    }

    if (qs->playback) {
        ngx_quic_report_playback(r->connection, qs->playback);
    }

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_quic_qoe_filter(ngx_http_request_t *r)
{
    if (r->connection->quic && r == r->main && !r->header_only
        && r->headers_out.content_length_n > 0 && ngx_http_quic_qoe_enabled(r))
    {
        ngx_quic_announce_length(r->connection,
                                 r->headers_out.content_length_n);
    }

    return ngx_http_next_header_filter(r);
}


static ngx_int_t
ngx_http_quic_qoe_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    u_char               *p;
    int64_t               value;
    ngx_quic_playback_t  *playback;

    playback = r->connection->quic ? r->connection->quic->playback : NULL;
    value = -1;

    if (playback) {
        switch (data) {

        case NGX_HTTP_QUIC_QOE_BUFFER:
            value = playback->buffer_ms;
            break;

        case NGX_HTTP_QUIC_QOE_BITRATE:
            value = playback->bitrate_kbps;
            break;

        case NGX_HTTP_QUIC_QOE_DEADLINE:
            value = playback->deadline_ms;
            break;

        case NGX_HTTP_QUIC_QOE_THROUGHPUT:
            value = playback->throughput_kbps;
            break;

        default: /* NGX_HTTP_QUIC_QOE_STALLED */
            value = ngx_quic_is_stalled(playback);
            break;
        }
    }

    if (value < 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_INT64_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    v->len = ngx_sprintf(p, "%L", value) - p;
    v->data = p;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_int_t
ngx_http_quic_qoe_add_variables(ngx_conf_t *cf)
{
    ngx_http_variable_t  *var, *v;

    for (v = ngx_http_quic_qoe_vars; v->name.len; v++) {
        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}


static void *
ngx_http_quic_qoe_create_srv_conf(ngx_conf_t *cf)
{
    ngx_http_quic_qoe_srv_conf_t  *conf;

    conf = ngx_palloc(cf->pool, sizeof(ngx_http_quic_qoe_srv_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    conf->enable = NGX_CONF_UNSET;

    return conf;
}


static char *
ngx_http_quic_qoe_merge_srv_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_quic_qoe_srv_conf_t *prev = parent;
    ngx_http_quic_qoe_srv_conf_t *conf = child;

    ngx_conf_merge_value(conf->enable, prev->enable, 1);

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_quic_qoe_init(ngx_conf_t *cf)
{
    ngx_uint_t                     i;
    ngx_http_handler_pt           *h;
    ngx_http_core_srv_conf_t     **cscfp;
    ngx_http_core_main_conf_t     *cmcf;
    ngx_http_quic_qoe_srv_conf_t  *qscf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    cscfp = cmcf->servers.elts;

    for (i = 0; i < cmcf->servers.nelts; i++) {
        qscf = cscfp[i]->ctx->srv_conf[ngx_http_quic_qoe_module.ctx_index];

        if (qscf->enable) {
            break;
        }
    }

    if (i == cmcf->servers.nelts) {
        return NGX_OK;
    }

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_POST_READ_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_quic_qoe_handler;

    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_quic_qoe_filter;

    return ngx_http_quic_qoe_add_headers(cf, cmcf);
}


/* nginx makes its hash of known header fields before modules come to their word */

static ngx_int_t
ngx_http_quic_qoe_add_headers(ngx_conf_t *cf, ngx_http_core_main_conf_t *cmcf)
{
    ngx_uint_t          i;
    ngx_array_t         keys;
    ngx_hash_key_t     *hk;
    ngx_hash_init_t     hash;
    ngx_http_header_t  *header;

    ngx_http_header_t  *lists[] = { ngx_http_headers_in,
                                    ngx_http_quic_qoe_headers };

    if (ngx_array_init(&keys, cf->temp_pool, 32, sizeof(ngx_hash_key_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    for (i = 0; i < 2; i++) {
        for (header = lists[i]; header->name.len; header++) {
            hk = ngx_array_push(&keys);
            if (hk == NULL) {
                return NGX_ERROR;
            }

            hk->key = header->name;
            hk->key_hash = ngx_hash_key_lc(header->name.data,
                                           header->name.len);
            hk->value = header;
        }
    }

    hash.hash = &cmcf->headers_in_hash;
    hash.key = ngx_hash_key_lc;
    hash.max_size = 512;
    hash.bucket_size = ngx_align(64, ngx_cacheline_size);
    hash.name = "headers_in_hash";
    hash.pool = cf->pool;
    hash.temp_pool = NULL;

    return ngx_hash_init(&hash, keys.elts, keys.nelts);
}
