
/*
 * Copyright (C) Nginx, Inc.
 * Copyright (C) 2026, the mpq authors
 *
 * The module of the whole process: its directives, and what it begins with.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_quic_connection.h>


/* free memory that a worker keeps; glibc's 128K come and go with each burst */
#define NGX_QUIC_MALLOC_KEEP  (8 * 1024 * 1024)


static void *ngx_quic_create_conf(ngx_cycle_t *cycle);
static char *ngx_quic_init_conf(ngx_cycle_t *cycle, void *conf);
static char *ngx_quic_server_id(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_quic_lb_config(ngx_conf_t *cf, ngx_quic_main_conf_t *qmcf,
    ngx_str_t *value);
static char *ngx_quic_lb_key(ngx_conf_t *cf, ngx_quic_main_conf_t *qmcf,
    ngx_str_t *value);
static ngx_int_t ngx_quic_read_hex(ngx_str_t *text, u_char *out, size_t len);
static ngx_int_t ngx_quic_init_module(ngx_cycle_t *cycle);
static void ngx_quic_init_malloc(void);


static ngx_command_t  ngx_quic_commands[] = {

    { ngx_string("quic_server_id"),
      NGX_MAIN_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE123,
      ngx_quic_server_id,
      0,
      0,
      NULL },

    { ngx_string("quic_handover_path"),
      NGX_MAIN_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_path_slot,
      0,
      offsetof(ngx_quic_main_conf_t, handover_path),
      NULL },

      ngx_null_command
};


static ngx_core_module_t  ngx_quic_module_ctx = {
    ngx_string("quic"),
    ngx_quic_create_conf,
    ngx_quic_init_conf
};


ngx_module_t  ngx_quic_module = {
    NGX_MODULE_V1,
    &ngx_quic_module_ctx,                  /* module context */
    ngx_quic_commands,                     /* module directives */
    NGX_CORE_MODULE,                       /* module type */
    NULL,                                  /* init master */
    ngx_quic_init_module,                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static void *
ngx_quic_create_conf(ngx_cycle_t *cycle)
{
    return ngx_pcalloc(cycle->pool, sizeof(ngx_quic_main_conf_t));
}


/*
 * Where workers meet: next to the pid file, which is one for each nginx of a
 * host, and remains the same over reloads and upgrades.
 */

static char *
ngx_quic_init_conf(ngx_cycle_t *cycle, void *conf)
{
    ngx_quic_main_conf_t *qmcf = conf;

    ngx_uint_t         i;
    ngx_str_t         *name;
    ngx_path_t       **path;
    ngx_core_conf_t   *ccf;
    ngx_listening_t   *ls;
    ngx_file_info_t    fi;

    ls = cycle->listening.elts;

    for (i = 0; i < cycle->listening.nelts && !ls[i].quic; i++) { /* void */ }

    if (i == cycle->listening.nelts) {
        qmcf->handover_path = NULL;
        return NGX_CONF_OK;
    }

    if (qmcf->handover_path == NULL) {

        ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx,
                                               ngx_core_module);

        qmcf->handover_path = ngx_pcalloc(cycle->pool, sizeof(ngx_path_t));
        if (qmcf->handover_path == NULL) {
            return NGX_CONF_ERROR;
        }

        name = &qmcf->handover_path->name;

        name->len = ccf->pid.len + sizeof(".quic") - 1;
        name->data = ngx_pnalloc(cycle->pool, name->len + 1);
        if (name->data == NULL) {
            return NGX_CONF_ERROR;
        }

        (void) ngx_sprintf(name->data, "%V.quic%Z", &ccf->pid);

        /* made for the workers' user, as those for temporary files */

        path = ngx_array_push(&cycle->paths);
        if (path == NULL) {
            return NGX_CONF_ERROR;
        }

        *path = qmcf->handover_path;
    }

    name = &qmcf->handover_path->name;

    if (name->len > NGX_QUIC_HANDOVER_PATH_LEN) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                      "\"%V\" is too long for the names of sockets: "
                      "\"quic_handover_path\" may have %uz octets",
                      name, (size_t) NGX_QUIC_HANDOVER_PATH_LEN);
        return NGX_CONF_ERROR;
    }

    if (ngx_link_info(name->data, &fi) != NGX_FILE_ERROR
        && (!ngx_is_dir(&fi) || (fi.st_mode & (S_IRWXG|S_IRWXO))))
    {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                      "\"%V\" for QUIC workers must be a directory that only "
                      "its owner may enter", name);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_quic_server_id(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_quic_main_conf_t *qmcf = conf;

    char        *rv;
    ngx_str_t   *value, s;
    ngx_uint_t   i;

    if (qmcf->has_server_id) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_quic_read_hex(&value[1], qmcf->server_id, NGX_QUIC_CID_SERVER_LEN)
        != NGX_OK)
    {
        return "must have 8 hexadecimal digits";
    }

    qmcf->has_server_id = 1;

    for (i = 2; i < cf->args->nelts; i++) {

        if (ngx_strncmp(value[i].data, "config=", 7) == 0) {
            s.len = value[i].len - 7;
            s.data = value[i].data + 7;
            rv = ngx_quic_lb_config(cf, qmcf, &s);

        } else if (ngx_strncmp(value[i].data, "key=", 4) == 0) {
            s.len = value[i].len - 4;
            s.data = value[i].data + 4;
            rv = ngx_quic_lb_key(cf, qmcf, &s);

        } else {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\"", &value[i]);
            return NGX_CONF_ERROR;
        }

        if (rv != NGX_CONF_OK) {
            return rv;
        }
    }

    return NGX_CONF_OK;
}


static char *
ngx_quic_lb_config(ngx_conf_t *cf, ngx_quic_main_conf_t *qmcf, ngx_str_t *value)
{
    ngx_int_t  n;

    if (qmcf->has_lb_config) {
        return "has two \"config\"";
    }

    n = ngx_atoi(value->data, value->len);

    if (n == NGX_ERROR || n > 6) {
        return "must have a \"config\" of 0 to 6";
    }

    qmcf->lb_config = n;
    qmcf->has_lb_config = 1;

    return NGX_CONF_OK;
}


/* a file, so that the key is not in what everybody may read */

static char *
ngx_quic_lb_key(ngx_conf_t *cf, ngx_quic_main_conf_t *qmcf, ngx_str_t *value)
{
    ssize_t      n;
    ngx_fd_t     fd;
    ngx_str_t    text;

    u_char       buf[2 * NGX_QUIC_LB_KEY_LEN + 3];
    u_char       key[NGX_QUIC_LB_KEY_LEN];

    if (qmcf->has_lb_key) {
        return "has two \"key\"";
    }

    if (ngx_conf_full_name(cf->cycle, value, 1) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    fd = ngx_open_file(value->data, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);

    if (fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_open_file_n " \"%V\" failed", value);
        return NGX_CONF_ERROR;
    }

    n = ngx_read_fd(fd, buf, sizeof(buf));

    if (ngx_close_file(fd) == NGX_FILE_ERROR) {
        ngx_conf_log_error(NGX_LOG_ALERT, cf, ngx_errno,
                           ngx_close_file_n " \"%V\" failed", value);
    }

    while (n > 0 && (buf[n - 1] == LF || buf[n - 1] == CR)) {
        n--;
    }

    text.data = buf;
    text.len = ngx_max(n, 0);

    if (ngx_quic_read_hex(&text, key, NGX_QUIC_LB_KEY_LEN) != NGX_OK
        || AES_set_encrypt_key(key, 8 * NGX_QUIC_LB_KEY_LEN, &qmcf->lb_key) != 0)
    {
        ngx_explicit_memzero(buf, sizeof(buf));
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" must have 32 hexadecimal digits", value);
        return NGX_CONF_ERROR;
    }

    ngx_explicit_memzero(buf, sizeof(buf));
    ngx_explicit_memzero(key, sizeof(key));

    qmcf->has_lb_key = 1;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_quic_read_hex(ngx_str_t *text, u_char *out, size_t len)
{
    size_t     i;
    ngx_int_t  n;

    if (text->len != 2 * len) {
        return NGX_ERROR;
    }

    for (i = 0; i < len; i++) {
        n = ngx_hextoi(&text->data[2 * i], 2);

        if (n == NGX_ERROR) {
            return NGX_ERROR;
        }

        out[i] = (u_char) n;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_quic_init_module(ngx_cycle_t *cycle)
{
    if (ngx_quic_init_returning(cycle) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_quic_init_workers_module(cycle);
}


/* after the event module's: sockets have connections, and events work */

ngx_int_t
ngx_quic_init_process(ngx_cycle_t *cycle)
{
    if (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE)
    {
        return NGX_OK;
    }

    if (ngx_quic_init_listeners(cycle) != NGX_OK
        || ngx_quic_init_cids(cycle) != NGX_OK
        || ngx_quic_init_workers(cycle) != NGX_OK
        || ngx_quic_init_status(cycle) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_quic_init_malloc();

    return NGX_OK;
}


/*
 * What waits for acknowledgments is allocated and freed all the time: without
 * this the kernel takes back pages, and clears them again, at every turn.
 */

static void
ngx_quic_init_malloc(void)
{
#ifdef __GLIBC__
    (void) mallopt(M_TRIM_THRESHOLD, NGX_QUIC_MALLOC_KEEP);
    (void) mallopt(M_MMAP_THRESHOLD, NGX_QUIC_MALLOC_KEEP / 8);
#endif
}
