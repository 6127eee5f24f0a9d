
/*
 * Copyright (C) 2026, the mpq authors
 *
 * What QUIC shows of itself: variables for logs, and the status page of
 *
 *     location = /quic-status { quic_status; }
 *
 * as JSON, or as text for Prometheus with ?format=prometheus or if the client's
 * "Accept" prefers text/plain.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* which variable */
#define NGX_HTTP_QUIC_MULTIPATH           0
#define NGX_HTTP_QUIC_PATHS               1
#define NGX_HTTP_QUIC_PATH_BYTES          2
#define NGX_HTTP_QUIC_PATH_RTT            3
#define NGX_HTTP_QUIC_CONGESTION_CONTROL  4
#define NGX_HTTP_QUIC_SCHEDULER           5

/* text of one path, of one connection without paths, of one worker's counters */
#define NGX_HTTP_QUIC_PATH_SIZE           512
#define NGX_HTTP_QUIC_CONNECTION_SIZE     1024
#define NGX_HTTP_QUIC_WORKER_SIZE         8192


typedef struct {
    char        *name;
    char        *type;
    char        *help;
    size_t       offset;
} ngx_http_quic_metric_t;


static ngx_int_t ngx_http_quic_init_process(ngx_cycle_t *cycle);
static ngx_quic_conf_t *ngx_http_quic_find_conf(ngx_listening_t *ls,
    struct sockaddr *local);
static ngx_int_t ngx_http_quic_add_variables(ngx_conf_t *cf);
static ngx_int_t ngx_http_quic_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static char *ngx_http_quic_status(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static ngx_int_t ngx_http_quic_status_handler(ngx_http_request_t *r);
static ngx_uint_t ngx_http_quic_wants_prometheus(ngx_http_request_t *r);
static u_char *ngx_http_quic_json(u_char *p, u_char *last,
    ngx_array_t *workers);
static u_char *ngx_http_quic_json_connection(u_char *p, u_char *last,
    ngx_quic_status_t *st, ngx_quic_info_t *info);
static u_char *ngx_http_quic_prometheus(u_char *p, u_char *last,
    ngx_array_t *workers);
static u_char *ngx_http_quic_labels(u_char *p, u_char *last,
    ngx_array_t *workers, ngx_uint_t i);


static ngx_http_variable_t  ngx_http_quic_vars[] = {

    { ngx_string("quic_multipath"), NULL, ngx_http_quic_variable,
      NGX_HTTP_QUIC_MULTIPATH, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("quic_paths"), NULL, ngx_http_quic_variable,
      NGX_HTTP_QUIC_PATHS, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("quic_path_bytes"), NULL, ngx_http_quic_variable,
      NGX_HTTP_QUIC_PATH_BYTES, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("quic_path_rtt"), NULL, ngx_http_quic_variable,
      NGX_HTTP_QUIC_PATH_RTT, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("quic_congestion_control"), NULL, ngx_http_quic_variable,
      NGX_HTTP_QUIC_CONGESTION_CONTROL, 0, 0 },

    { ngx_string("quic_scheduler"), NULL, ngx_http_quic_variable,
      NGX_HTTP_QUIC_SCHEDULER, 0, 0 },

      ngx_http_null_variable
};


static ngx_http_quic_metric_t  ngx_http_quic_metrics[] = {

    { "connections", "gauge", "QUIC connections there are.",
      offsetof(ngx_quic_status_t, connections) },

    { "multipath_connections", "gauge", "Connections that agreed on multipath.",
      offsetof(ngx_quic_status_t, multipath) },

    { "paths", "gauge", "Paths that carry data.",
      offsetof(ngx_quic_status_t, paths) },

    { "paths_refused", "counter", "Paths that quic_path refused.",
      offsetof(ngx_quic_status_t, paths_refused) },

    { "accepted", "counter", "Connections begun by clients.",
      offsetof(ngx_quic_status_t, accepted) },

    { "established", "counter", "Handshakes completed.",
      offsetof(ngx_quic_status_t, established) },

    { "retries", "counter", "Retry packets sent.",
      offsetof(ngx_quic_status_t, retries) },

    { "stateless_resets", "counter", "Stateless resets sent.",
      offsetof(ngx_quic_status_t, resets) },

    { "handed_over", "counter", "Datagrams passed to another worker.",
      offsetof(ngx_quic_status_t, handed_over) },

    { "handover_received", "counter", "Datagrams taken from another worker.",
      offsetof(ngx_quic_status_t, handover_received) },

    { "handover_dropped", "counter",
      "Datagrams for another worker that were dropped: it could not be reached, "
      "or takes nothing.",
      offsetof(ngx_quic_status_t, handover_dropped) },

    { "dropped", "counter",
      "Datagrams of no connection that were dropped: malformed, or a new client "
      "at a server that exits or has no connection left.",
      offsetof(ngx_quic_status_t, dropped) },

    { "send_blocked", "counter",
      "Times the kernel had no room for datagrams.",
      offsetof(ngx_quic_status_t, blocked) },

    { "send_budget_bytes", "gauge",
      "Response data that connections may hold, unsent or unacknowledged.",
      offsetof(ngx_quic_status_t, send_budget) },

    { "send_held_bytes", "gauge",
      "Response data that connections hold, unsent or unacknowledged.",
      offsetof(ngx_quic_status_t, send_held) },

    { "send_holders", "gauge", "Connections that hold response data.",
      offsetof(ngx_quic_status_t, send_holders) },

#if (NGX_QUIC_HEAP)
    { "heap_bytes", "gauge",
      "Memory in use by the worker, without what its allocator keeps free.",
      offsetof(ngx_quic_status_t, heap) },
#endif

    { "qoe_reports", "counter",
      "Reports of clients on their playback that the scheduler was given.",
      offsetof(ngx_quic_status_t, qoe_reports) },

    { "deadlines", "counter",
      "Responses whose deadline the scheduler was given.",
      offsetof(ngx_quic_status_t, deadlines) },

    { "resume_tokens", "counter",
      "Tokens sent that say what is known of a client's paths.",
      offsetof(ngx_quic_status_t, resume_tokens) },

    { "paths_resumed", "counter",
      "Paths that began with what an earlier connection saw of them.",
      offsetof(ngx_quic_status_t, resumed) },

    { "paths_unknown", "counter",
      "Paths whose client has a token that says nothing of their addresses.",
      offsetof(ngx_quic_status_t, resume_unknown) },

    { "paths_expired", "counter",
      "Paths of which what is known is older than quic_careful_resume allows.",
      offsetof(ngx_quic_status_t, resume_expired) },

    { "paths_used", "counter",
      "Paths of which what is known was used by another connection, or replaced.",
      offsetof(ngx_quic_status_t, resume_used) },

    { "resume_tokens_garbage", "counter",
      "Tokens that were changed, or made with another key.",
      offsetof(ngx_quic_status_t, resume_garbage) },

    { "draining", "gauge",
      "1 for a worker of before a reload or an upgrade, which is about to exit.",
      offsetof(ngx_quic_status_t, draining) },

    { NULL, NULL, NULL, 0 }
};


static ngx_command_t  ngx_http_quic_commands[] = {

    { ngx_string("quic_status"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS,
      ngx_http_quic_status,
      0,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_quic_module_ctx = {
    ngx_http_quic_add_variables,           /* preconfiguration */
    NULL,                                  /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_http_quic_module = {
    NGX_MODULE_V1,
    &ngx_http_quic_module_ctx,             /* module context */
    ngx_http_quic_commands,                /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    ngx_http_quic_init_process,            /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_quic_exit_process,                 /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_int_t
ngx_http_quic_init_process(ngx_cycle_t *cycle)
{
    ngx_quic_find_conf = ngx_http_quic_find_conf;

    return ngx_quic_init_process(cycle);
}


/* those of the default server of the address, as ngx_http_init_connection() */

static ngx_quic_conf_t *
ngx_http_quic_find_conf(ngx_listening_t *ls, struct sockaddr *local)
{
    ngx_uint_t               i;
    ngx_http_port_t         *port;
    ngx_http_in_addr_t      *addr;
    ngx_http_addr_conf_t    *conf;
    ngx_http_v3_srv_conf_t  *h3scf;
#if (NGX_HAVE_INET6)
    ngx_http_in6_addr_t     *addr6;
#endif

    port = ls->servers;

    if (port == NULL || port->naddrs == 0) {
        return NULL;
    }

    switch (local->sa_family) {

#if (NGX_HAVE_INET6)
    case AF_INET6:
        addr6 = port->addrs;

        /* the last of several stands for all others */

        for (i = 0; i < port->naddrs - 1; i++) {
            if (ngx_memcmp(&addr6[i].addr6,
                           &((struct sockaddr_in6 *) local)->sin6_addr, 16)
                == 0)
            {
                break;
            }
        }

        conf = &addr6[i].conf;
        break;
#endif

    case AF_INET:
        addr = port->addrs;

        for (i = 0; i < port->naddrs - 1; i++) {
            if (addr[i].addr
                == ((struct sockaddr_in *) local)->sin_addr.s_addr)
            {
                break;
            }
        }

        conf = &addr[i].conf;
        break;

    default:
        return NULL;
    }

    h3scf = ngx_http_get_module_srv_conf(conf->default_server->ctx,
                                         ngx_http_v3_module);

    return &h3scf->quic;
}


static ngx_int_t
ngx_http_quic_add_variables(ngx_conf_t *cf)
{
    ngx_http_variable_t  *var, *v;

    for (v = ngx_http_quic_vars; v->name.len; v++) {
        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_quic_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    u_char                *p, *last;
    ngx_str_t             *value;
    ngx_uint_t             i, n;
    ngx_quic_path_info_t   paths[NGX_QUIC_STATUS_PATHS];

    if (r->connection->quic == NULL) {
        *v = ngx_http_variable_null_value;
        return NGX_OK;
    }

    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    if (data == NGX_HTTP_QUIC_CONGESTION_CONTROL
        || data == NGX_HTTP_QUIC_SCHEDULER)
    {
        value = (data == NGX_HTTP_QUIC_SCHEDULER)
                ? &ngx_quic_get_conf(r->connection)->scheduler
                : &ngx_quic_get_conf(r->connection)->congestion_control;

        v->len = value->len;
        v->data = value->data;

        return NGX_OK;
    }

    if (data == NGX_HTTP_QUIC_MULTIPATH) {
        v->len = 1;
        v->data = (u_char *) (ngx_quic_is_multipath(r->connection) ? "1" : "0");

        return NGX_OK;
    }

    n = ngx_quic_get_paths(r->connection, paths, NGX_QUIC_STATUS_PATHS);

    p = ngx_pnalloc(r->pool, (n + 1) * (2 * NGX_INT64_LEN + 8));
    if (p == NULL) {
        return NGX_ERROR;
    }

    v->data = p;

    if (data == NGX_HTTP_QUIC_PATHS) {
        v->len = ngx_sprintf(p, "%ui", n) - p;
        return NGX_OK;
    }

    last = p;

    for (i = 0; i < n; i++) {

        if (i) {
            *last++ = ',';
        }

        if (data == NGX_HTTP_QUIC_PATH_BYTES) {
            last = ngx_sprintf(last, "%uL:%uL", paths[i].id, paths[i].sent);

        } else {
            /* milliseconds, to the microsecond */
            last = ngx_sprintf(last, "%uL:%uL.%03uL", paths[i].id,
                               paths[i].rtt / 1000, paths[i].rtt % 1000);
        }
    }

    v->len = last - p;

    return NGX_OK;
}


static char *
ngx_http_quic_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    clcf->handler = ngx_http_quic_status_handler;

    ngx_quic_enable_status();

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_quic_status_handler(ngx_http_request_t *r)
{
    size_t                     size;
    ngx_int_t                  rc;
    ngx_buf_t                 *b;
    ngx_uint_t                 i, n, prometheus;
    ngx_array_t               *workers;
    ngx_chain_t                out;
    ngx_quic_worker_status_t  *ws;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    prometheus = ngx_http_quic_wants_prometheus(r);

    workers = ngx_quic_get_status(r->pool, !prometheus);
    if (workers == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ws = workers->elts;

    size = NGX_HTTP_QUIC_WORKER_SIZE * (workers->nelts + 1);

    for (i = 0; i < workers->nelts; i++) {
        for (n = 0; n < ws[i].nlist; n++) {
            size += NGX_HTTP_QUIC_CONNECTION_SIZE
                    + ws[i].list[n].npaths * NGX_HTTP_QUIC_PATH_SIZE;
        }
    }

    b = ngx_create_temp_buf(r->pool, size);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (prometheus) {
        b->last = ngx_http_quic_prometheus(b->pos, b->end, workers);
        ngx_str_set(&r->headers_out.content_type,
                    "text/plain; version=0.0.4; charset=utf-8");

    } else {
        b->last = ngx_http_quic_json(b->pos, b->end, workers);
        ngx_str_set(&r->headers_out.content_type, "application/json");
    }

    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;
    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = b->last - b->pos;

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    b->last_buf = (r == r->main) ? 1 : 0;
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}


static ngx_uint_t
ngx_http_quic_wants_prometheus(ngx_http_request_t *r)
{
    ngx_str_t         value;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    if (ngx_http_arg(r, (u_char *) "format", 6, &value) == NGX_OK) {
        return value.len == 10
               && ngx_strncmp(value.data, "prometheus", 10) == 0;
    }

    part = &r->headers_in.headers.part;
    h = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                return 0;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        if (h[i].key.len == 6
            && ngx_strncasecmp(h[i].key.data, (u_char *) "Accept", 6) == 0)
        {
            return ngx_strlcasestrn(h[i].value.data,
                                    h[i].value.data + h[i].value.len,
                                    (u_char *) "text/plain", 10 - 1)
                   || ngx_strlcasestrn(h[i].value.data,
                                       h[i].value.data + h[i].value.len,
                                       (u_char *) "openmetrics", 11 - 1);
        }
    }
}


static u_char *
ngx_http_quic_json(u_char *p, u_char *last, ngx_array_t *workers)
{
    uint64_t                  *value;
    ngx_uint_t                 i, n, nlisted;
    ngx_quic_status_t         *st;
    ngx_quic_worker_status_t  *ws;

    p = ngx_slprintf(p, last, "{\n\"workers\": [");

    ws = workers->elts;

    for (i = 0; i < workers->nelts; i++) {
        st = ws[i].status;

        p = ngx_slprintf(p, last,
                         "%s\n{\"worker\": %ui, \"pid\": %P, "
                         "\"generation\": %uL",
                         i ? "," : "", st->worker, st->pid, st->generation);

        for (n = 0; ngx_http_quic_metrics[n].name; n++) {
            value = (uint64_t *) ((u_char *) st
                                  + ngx_http_quic_metrics[n].offset);

            p = ngx_slprintf(p, last, ", \"%s\": %uL",
                             ngx_http_quic_metrics[n].name, *value);
        }

        p = ngx_slprintf(p, last, ", \"connections_listed\": %ui}",
                         ws[i].nlist);
    }

    p = ngx_slprintf(p, last, "\n],\n\"connections\": [");

    nlisted = 0;

    for (i = 0; i < workers->nelts; i++) {

        for (n = 0; n < ws[i].nlist; n++) {
            p = ngx_slprintf(p, last, "%s\n", nlisted++ ? "," : "");
            p = ngx_http_quic_json_connection(p, last, ws[i].status,
                                              &ws[i].list[n]);
        }
    }

    return ngx_slprintf(p, last, "\n]\n}\n");
}


static u_char *
ngx_http_quic_json_connection(u_char *p, u_char *last, ngx_quic_status_t *st,
    ngx_quic_info_t *info)
{
    ngx_uint_t             i;
    ngx_quic_playback_t   *playback;
    ngx_quic_path_info_t  *path;

    static const char  *statuses[] = { "available", "backup" };
    static const char  *healths[] = { "healthy", "suspect", "failed",
                                      "recovering" };

    p = ngx_slprintf(p, last,
                     "{\"worker\": %ui, \"pid\": %P, "
                     "\"connection\": %uA, \"age_ms\": %M, "
                     "\"multipath\": %s, \"congestion_control\": \"%s\", "
                     "\"scheduler\": \"%s\", \"why_one_path\": \"%s\", ",
                     st->worker, st->pid, info->number, info->age,
                     info->multipath ? "true" : "false",
                     info->congestion_control, info->scheduler,
                     info->why_one_path);

    if (info->nreports) {
        playback = &info->playback;

        p = ngx_slprintf(p, last,
                         "\"qoe\": {\"reports\": %uL, \"age_ms\": %M, "
                         "\"buffer_ms\": %L, \"bitrate_kbps\": %L, "
                         "\"throughput_kbps\": %L, \"stalled\": %s}, ",
                         info->nreports, info->playback_age,
                         ngx_max(playback->buffer_ms, 0),
                         ngx_max(playback->bitrate_kbps, 0),
                         ngx_max(playback->throughput_kbps, 0),
                         ngx_quic_is_stalled(playback) ? "true" : "false");

    } else {
        p = ngx_slprintf(p, last, "\"qoe\": null, ");
    }

    p = ngx_slprintf(p, last, "\"paths\": [");

    for (i = 0; i < info->npaths; i++) {
        path = &info->paths[i];

        p = ngx_slprintf(p, last,
                         "%s{\"id\": %uL, \"local\": \"%s\", \"peer\": \"%s\", "
                         "\"rtt_us\": %uL, \"window_bytes\": %uL, "
                         "\"sent_bytes\": %uL, \"received_bytes\": %uL, "
                         "\"lost_bytes\": %uL, \"status\": \"%s\", "
                         "\"our_status\": \"%s\", \"health\": \"%s\", "
                         "\"bottleneck\": ",
                         i ? ", " : "", path->id, path->local, path->peer,
                         path->rtt, path->window, path->sent, path->received,
                         path->lost, statuses[path->status & 1],
                         statuses[path->our_status & 1],
                         healths[path->health & 3]);

        p = (path->bottleneck == UINT64_MAX)
            ? ngx_slprintf(p, last, "null}")
            : ngx_slprintf(p, last, "%uL}", path->bottleneck);
    }

    return ngx_slprintf(p, last, "]}");
}


static u_char *
ngx_http_quic_prometheus(u_char *p, u_char *last, ngx_array_t *workers)
{
    char                      *suffix;
    uint64_t                  *value;
    ngx_uint_t                 i, n, k;
    ngx_quic_status_t         *st;
    ngx_http_quic_metric_t    *m;
    ngx_quic_worker_status_t  *ws;

    ws = workers->elts;

    for (n = 0; ngx_http_quic_metrics[n].name; n++) {
        m = &ngx_http_quic_metrics[n];
        suffix = (m->type[0] == 'c') ? "_total" : "";

        p = ngx_slprintf(p, last,
                         "# HELP nginx_quic_%s%s %s\n"
                         "# TYPE nginx_quic_%s%s %s\n",
                         m->name, suffix, m->help, m->name, suffix, m->type);

        for (i = 0; i < workers->nelts; i++) {
            st = ws[i].status;
            value = (uint64_t *) ((u_char *) st + m->offset);

            p = ngx_slprintf(p, last, "nginx_quic_%s%s{", m->name, suffix);
            p = ngx_http_quic_labels(p, last, workers, i);
            p = ngx_slprintf(p, last, "} %uL\n", *value);
        }
    }

    for (k = 0; k < 2; k++) {

        p = ngx_slprintf(p, last,
                         "# HELP nginx_quic_%s_bytes_total Octets %s in UDP "
                         "payload by path ID; the last one stands for all "
                         "higher ones too.\n"
                         "# TYPE nginx_quic_%s_bytes_total counter\n",
                         k ? "received" : "sent", k ? "received" : "sent",
                         k ? "received" : "sent");

        for (i = 0; i < workers->nelts; i++) {
            st = ws[i].status;
            value = k ? st->received : st->sent;

            for (n = 0; n < NGX_QUIC_STATUS_PATHS; n++) {
                p = ngx_slprintf(p, last, "nginx_quic_%s_bytes_total{",
                                 k ? "received" : "sent");
                p = ngx_http_quic_labels(p, last, workers, i);
                p = ngx_slprintf(p, last, ",path_id=\"%ui\"} %uL\n", n,
                                 value[n]);
            }
        }
    }

    return p;
}


/* the newest worker of a number goes without its process ID */

static u_char *
ngx_http_quic_labels(u_char *p, u_char *last, ngx_array_t *workers,
    ngx_uint_t i)
{
    ngx_quic_worker_status_t  *ws;

    ws = workers->elts;

    p = ngx_slprintf(p, last, "worker=\"%ui\"", ws[i].status->worker);

    if (i + 1 < workers->nelts
        && ws[i + 1].status->worker == ws[i].status->worker)
    {
        p = ngx_slprintf(p, last, ",pid=\"%P\"", ws[i].status->pid);
    }

    return p;
}
