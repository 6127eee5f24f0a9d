
/*
 * Copyright (C) 2026, the mpq authors
 *
 * Connection IDs: one table for each worker, from every ID issued on any path
 * of any connection to that connection, across all listening sockets.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <openssl/siphash.h>
#include <ngx_event_quic_connection.h>


static uint32_t ngx_quic_route_mask(u_char *id);
static void ngx_quic_rbtree_insert_cid(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel);
static ngx_int_t ngx_quic_cmp_cid(u_char *id, size_t len, ngx_quic_cid_t *cid);
static void ngx_quic_close_cid(ngx_quic_cid_t *cid);
static ngx_int_t ngx_quic_issue_cid(ngx_connection_t *c,
    ngx_uint_t multipath, uint64_t path_id);


/* shared by all processes, see ngx_event_quic_workers.c */
u_char  ngx_quic_route_key[NGX_QUIC_ROUTE_KEY_LEN];

static ngx_rbtree_t       ngx_quic_cids;
static ngx_rbtree_node_t  ngx_quic_cids_sentinel;
static ngx_queue_t        ngx_quic_free_cids;


ngx_int_t
ngx_quic_init_cids(ngx_cycle_t *cycle)
{
    ngx_rbtree_init(&ngx_quic_cids, &ngx_quic_cids_sentinel,
                    ngx_quic_rbtree_insert_cid);
    ngx_queue_init(&ngx_quic_free_cids);

    return NGX_OK;
}


static void
ngx_quic_rbtree_insert_cid(ngx_rbtree_node_t *temp, ngx_rbtree_node_t *node,
    ngx_rbtree_node_t *sentinel)
{
    ngx_quic_cid_t      *cid, *other;
    ngx_rbtree_node_t  **p;

    for ( ;; ) {

        if (node->key != temp->key) {
            p = (node->key < temp->key) ? &temp->left : &temp->right;

        } else {
            cid = (ngx_quic_cid_t *) node;
            other = (ngx_quic_cid_t *) temp;

            p = (ngx_quic_cmp_cid(cid->id, cid->len, other) < 0)
                ? &temp->left : &temp->right;
        }

        if (*p == sentinel) {
            break;
        }

        temp = *p;
    }

    *p = node;
    node->parent = temp;
    node->left = sentinel;
    node->right = sentinel;
    ngx_rbt_red(node);
}


static ngx_int_t
ngx_quic_cmp_cid(u_char *id, size_t len, ngx_quic_cid_t *cid)
{
    return ngx_memn2cmp(id, cid->id, len, cid->len);
}


ngx_connection_t *
ngx_quic_find_connection(u_char *id, size_t len)
{
    uint32_t            hash;
    ngx_int_t           rc;
    ngx_quic_cid_t     *cid;
    ngx_rbtree_node_t  *node;

    hash = ngx_crc32_long(id, len);
    node = ngx_quic_cids.root;

    while (node != &ngx_quic_cids_sentinel) {

        if (hash != node->key) {
            node = (hash < node->key) ? node->left : node->right;
            continue;
        }

        cid = (ngx_quic_cid_t *) node;

        rc = ngx_quic_cmp_cid(id, len, cid);

        if (rc == 0) {
            return cid->connection;
        }

        node = (rc < 0) ? node->left : node->right;
    }

    return NULL;
}


/* the layout is described in ngx_event_quic_connection.h */

ngx_int_t
ngx_quic_new_cid(ngx_log_t *log, u_char *id)
{
    ngx_quic_main_conf_t  *qmcf;

    uint32_t               route;

    if (RAND_bytes(id, NGX_QUIC_CID_ROUTE) != 1) {
        ngx_ssl_error(NGX_LOG_ALERT, log, 0, "RAND_bytes() failed");
        return NGX_ERROR;
    }

    qmcf = (ngx_quic_main_conf_t *) ngx_get_conf(ngx_cycle->conf_ctx,
                                                 ngx_quic_module);

    if (qmcf->has_server_id) {
        id[0] &= ~NGX_QUIC_LB_UNROUTABLE;
        id[0] |= qmcf->lb_config << NGX_QUIC_LB_SHIFT;

        ngx_memcpy(&id[NGX_QUIC_CID_SERVER], qmcf->server_id,
                   NGX_QUIC_CID_SERVER_LEN);

        if (qmcf->has_lb_key) {
            AES_encrypt(&id[NGX_QUIC_CID_BLOCK], &id[NGX_QUIC_CID_BLOCK],
                        &qmcf->lb_key);
        }

    } else {
        id[0] |= NGX_QUIC_LB_UNROUTABLE;
    }

    route = ngx_quic_process ^ ngx_quic_route_mask(id);

    id[NGX_QUIC_CID_ROUTE] = (u_char) (route >> 16);
    id[NGX_QUIC_CID_ROUTE + 1] = (u_char) (route >> 8);
    id[NGX_QUIC_CID_ROUTE + 2] = (u_char) route;

    return NGX_OK;
}


/* the process that a connection ID of NGX_QUIC_CID_LEN leads to, if it is ours */

uint32_t
ngx_quic_cid_process(u_char *id)
{
    uint32_t  route;

    route = (uint32_t) id[NGX_QUIC_CID_ROUTE] << 16
            | (uint32_t) id[NGX_QUIC_CID_ROUTE + 1] << 8
            | id[NGX_QUIC_CID_ROUTE + 2];

    return route ^ ngx_quic_route_mask(id);
}


/* as in the eBPF program */

static uint32_t
ngx_quic_route_mask(u_char *id)
{
    size_t    i;
    uint64_t  key[2];

    ngx_memzero(key, sizeof(key));

    for (i = 0; i < NGX_QUIC_ROUTE_KEY_LEN; i++) {
        key[i / 8] |= (uint64_t) ngx_quic_route_key[i] << 8 * (i % 8);
    }

    return SIPHASH_24(key, &id[NGX_QUIC_CID_BLOCK], NGX_QUIC_CID_BLOCK_LEN)
           & NGX_QUIC_ROUTE_MASK;
}


/* makes datagrams with the connection ID find the connection */

ngx_int_t
ngx_quic_listen(ngx_connection_t *c, u_char *id, size_t len,
    ngx_quic_cid_t **out)
{
    ngx_queue_t            *q;
    ngx_quic_cid_t         *cid;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    if (!ngx_queue_empty(&ngx_quic_free_cids)) {
        q = ngx_queue_head(&ngx_quic_free_cids);
        ngx_queue_remove(q);
        cid = ngx_queue_data(q, ngx_quic_cid_t, queue);

    } else {
        cid = ngx_alloc(sizeof(ngx_quic_cid_t), c->log);
        if (cid == NULL) {
            return NGX_ERROR;
        }
    }

    cid->connection = c;
    cid->len = len;
    ngx_memcpy(cid->id, id, len);
    cid->node.key = ngx_crc32_long(id, len);

    ngx_rbtree_insert(&ngx_quic_cids, &cid->node);
    ngx_queue_insert_tail(&qc->cids, &cid->queue);

    if (out) {
        *out = cid;
    }

    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, c->log, 0,
                   "quic listening at cid:%*xs", len, id);

    return NGX_OK;
}


static void
ngx_quic_close_cid(ngx_quic_cid_t *cid)
{
    ngx_rbtree_delete(&ngx_quic_cids, &cid->node);
    ngx_queue_remove(&cid->queue);
    ngx_queue_insert_head(&ngx_quic_free_cids, &cid->queue);
}


void
ngx_quic_close_cids(ngx_connection_t *c)
{
    ngx_queue_t            *q;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    while (!ngx_queue_empty(&qc->cids)) {
        q = ngx_queue_head(&qc->cids);
        ngx_quic_close_cid(ngx_queue_data(q, ngx_quic_cid_t, queue));
    }

    qc->initial = NULL;
}


/* the client uses ours once the handshake is complete */

void
ngx_quic_forget_initial_cid(ngx_connection_t *c)
{
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    if (qc->initial) {
        ngx_quic_close_cid(qc->initial);
        qc->initial = NULL;
    }
}


/*
 * gives the client the connection IDs it needs: one for each path ID that may
 * be used next, a spare one for each in use
 */

void
ngx_quic_supply_cids(ngx_connection_t *c)
{
    uint64_t                path_id;
    ngx_uint_t              issued;
    quiche_conn            *conn;
    quiche_path_id_iter    *iter;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);
    conn = qc->conn;

    if (!quiche_conn_is_multipath(conn)) {

        while (quiche_conn_scids_left(conn) > 0) {
            if (ngx_quic_issue_cid(c, 0, 0) != NGX_OK) {
                return;
            }
        }

        return;
    }

    do {
        issued = 0;
        iter = quiche_conn_path_ids_lacking_scids(conn);

        while (quiche_path_id_iter_next(iter, &path_id)) {

            if (ngx_quic_issue_cid(c, 1, path_id) != NGX_OK) {
                issued = 0;
                break;
            }

            issued = 1;
        }

        quiche_path_id_iter_free(iter);

    } while (issued);
}


static ngx_int_t
ngx_quic_issue_cid(ngx_connection_t *c, ngx_uint_t multipath, uint64_t path_id)
{
    int                     rc;
    u_char                  id[NGX_QUIC_CID_LEN];
    u_char                  token[NGX_QUIC_SR_TOKEN_LEN];
    uint64_t                seqnum;
    ngx_quic_cid_t         *cid;
    ngx_quic_connection_t  *qc;

    qc = ngx_quic_get_connection(c);

    if (ngx_quic_new_cid(c->log, id) != NGX_OK
        || ngx_quic_new_sr_token(c->log, id, NGX_QUIC_CID_LEN,
                                 qc->conf->sr_token_key, token)
           != NGX_OK
        || ngx_quic_listen(c, id, NGX_QUIC_CID_LEN, &cid) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (multipath) {
        rc = quiche_conn_new_scid_on_path(qc->conn, path_id, id,
                                          NGX_QUIC_CID_LEN, token, false,
                                          &seqnum);
    } else {
        rc = quiche_conn_new_scid(qc->conn, id, NGX_QUIC_CID_LEN, token, false,
                                  &seqnum);
    }

    if (rc != 0) {
        ngx_log_debug2(NGX_LOG_DEBUG_EVENT, c->log, 0,
                       "quic cid for path:%uL refused: %d", path_id, rc);
        ngx_quic_close_cid(cid);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


void
ngx_quic_retire_cids(ngx_connection_t *c)
{
    size_t                      len;
    const uint8_t              *id;
    ngx_queue_t                *q;
    ngx_quic_cid_t             *cid;
    ngx_quic_connection_t      *qc;
    quiche_connection_id_iter  *iter;

    qc = ngx_quic_get_connection(c);

    iter = quiche_conn_retired_scid_iter(qc->conn);

    while (quiche_connection_id_iter_next(iter, &id, &len)) {

        for (q = ngx_queue_head(&qc->cids);
             q != ngx_queue_sentinel(&qc->cids);
             q = ngx_queue_next(q))
        {
            cid = ngx_queue_data(q, ngx_quic_cid_t, queue);

            if (ngx_quic_cmp_cid((u_char *) id, len, cid) == 0) {
                ngx_quic_close_cid(cid);
                break;
            }
        }
    }

    quiche_connection_id_iter_free(iter);
}
