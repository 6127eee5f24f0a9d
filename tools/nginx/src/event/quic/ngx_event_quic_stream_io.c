
/*
 * Copyright (C) Nginx, Inc.
 * Copyright (C) 2026, the mpq authors
 *
 * What nginx reads from its streams and writes to them. quiche is never called
 * from within one of its own calls, so output is only posted here.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_quic_connection.h>


/* for instructions of HTTP/3 until output, and that wait for a window */
#define NGX_QUIC_UNI_BUFFER_MIN   256
#define NGX_QUIC_UNI_BUFFER_SIZE  4096

/* short buffers that quiche is given in one call */
#define NGX_QUIC_GATHER_SIZE      4096


/* what quiche is given by a call */
typedef struct {
    u_char                 *data;
    ngx_buf_t              *file;   /* or what is in a file */
    size_t                  size;
    bool                    fin;
} ngx_quic_piece_t;


static ssize_t ngx_quic_stream_recv(ngx_connection_t *c, u_char *buf,
    size_t size);
static ssize_t ngx_quic_stream_send(ngx_connection_t *c, u_char *buf,
    size_t size);
static ssize_t ngx_quic_stream_send_uni(ngx_connection_t *c, u_char *buf,
    size_t size);
static ngx_chain_t *ngx_quic_stream_send_chain(ngx_connection_t *c,
    ngx_chain_t *in, off_t limit);
static ngx_buf_t *ngx_quic_uni_buffer(ngx_connection_t *c,
    ngx_quic_stream_t *qs, size_t size);
static ngx_int_t ngx_quic_gather(ngx_chain_t *in, off_t limit,
    ngx_quic_piece_t *piece);
static bool ngx_quic_read_buffers(const struct iovec *iov, size_t n,
    void *data);
static ngx_int_t ngx_quic_read_buffer(ngx_buf_t *b, off_t offset, u_char *p,
    size_t size);
static void ngx_quic_block_stream(ngx_quic_connection_t *qc,
    ngx_quic_stream_t *qs);


void
ngx_quic_set_stream_io(ngx_connection_t *sc)
{
    sc->recv = ngx_quic_stream_recv;
    sc->send = ngx_quic_stream_send;
    sc->send_chain = ngx_quic_stream_send_chain;
}


static ssize_t
ngx_quic_stream_recv(ngx_connection_t *c, u_char *buf, size_t size)
{
    bool                    fin;
    ssize_t                 n;
    uint64_t                code;
    ngx_event_t            *rev;
    ngx_quic_stream_t      *qs;
    ngx_quic_connection_t  *qc;

    qs = c->quic;
    rev = c->read;
    qc = ngx_quic_get_connection(qs->parent);

    if (qs->recv_reset || qc->closing) {
        rev->error = 1;
        return NGX_ERROR;
    }

    if (qs->recv_fin) {
        rev->ready = 0;
        rev->eof = 1;
        return 0;
    }

    if (size == 0) {
        return 0;
    }

    fin = false;

    n = quiche_conn_stream_recv(qc->conn, qs->id, buf, size, &fin, &code);

    ngx_log_debug4(NGX_LOG_DEBUG_EVENT, c->log, 0,
                   "quic stream id:0x%xL recv: %z of %uz fin:%d",
                   qs->id, n, size, (int) fin);

    if (n >= 0) {
        qs->recv_fin = fin;

        /* MAX_DATA and MAX_STREAM_DATA */
        ngx_quic_post_push(qc);

        if (n == 0) {
            rev->ready = 0;
            rev->eof = fin;

            return fin ? 0 : NGX_AGAIN;
        }

        return n;
    }

    if (n == QUICHE_ERR_STREAM_RESET) {
        qs->recv_reset = 1;
        rev->error = 1;
        return NGX_ERROR;
    }

    /* nothing there; a stream of which nothing has come is not known yet */

    rev->ready = 0;

    return NGX_AGAIN;
}


static ssize_t
ngx_quic_stream_send(ngx_connection_t *c, u_char *buf, size_t size)
{
    ngx_buf_t           b;
    ngx_chain_t         cl;
    ngx_quic_stream_t  *qs;

    qs = c->quic;

    if ((qs->id & NGX_QUIC_STREAM_UNIDIRECTIONAL)
        && (qs->id & NGX_QUIC_STREAM_SERVER_INITIATED))
    {
        return ngx_quic_stream_send_uni(c, buf, size);
    }

    ngx_memzero(&b, sizeof(ngx_buf_t));

    b.memory = 1;
    b.pos = buf;
    b.last = buf + size;

    cl.buf = &b;
    cl.next = NULL;

    if (ngx_quic_stream_send_chain(c, &cl, 0) == NGX_CHAIN_ERROR) {
        return NGX_ERROR;
    }

    if (b.pos == buf) {
        return NGX_AGAIN;
    }

    return b.pos - buf;
}


/*
 * HTTP/3 does not expect that its control streams take less than all, which
 * quiche does while the congestion windows are full
 */

static ssize_t
ngx_quic_stream_send_uni(ngx_connection_t *c, u_char *buf, size_t size)
{
    ngx_buf_t              *b;
    ngx_quic_stream_t      *qs;
    ngx_quic_connection_t  *qc;

    qs = c->quic;
    qc = ngx_quic_get_connection(qs->parent);

    if (qc->closing) {
        /* nothing leaves any more, and HTTP/3 is not to blame */
        return size;
    }

    if (qs->send_fin || qs->send_reset || c->write->error) {
        c->write->error = 1;
        return NGX_ERROR;
    }

    b = ngx_quic_uni_buffer(c, qs, size);

    if (b == NULL) {
        return NGX_ERROR;
    }

    b->last = ngx_cpymem(b->last, buf, size);
    c->sent += size;

    /* with what the requests before the next output add */

    if (!qs->is_buffered) {
        qs->is_buffered = 1;
        ngx_queue_insert_tail(&qc->buffered, &qs->blocked);
        ngx_quic_post_push(qc);
    }

    return size;
}


/* with room for so much more, or NULL if the client does not read */

static ngx_buf_t *
ngx_quic_uni_buffer(ngx_connection_t *c, ngx_quic_stream_t *qs, size_t size)
{
    ngx_buf_t  *b, *old;

    old = qs->buffer;

    if (old && (size_t) (old->end - old->last) >= size) {
        return old;
    }

    if (old
        && ngx_quic_flush_uni(ngx_quic_get_connection(qs->parent), qs)
           != NGX_OK)
    {
        return NULL;
    }

    if (old && (size_t) (old->end - old->last) >= size) {
        return old;
    }

    if (old == NULL && size <= NGX_QUIC_UNI_BUFFER_MIN) {
        qs->buffer = ngx_create_temp_buf(c->pool, NGX_QUIC_UNI_BUFFER_MIN);
        return qs->buffer;
    }

    if ((old ? old->last - old->pos : 0) + size > NGX_QUIC_UNI_BUFFER_SIZE) {
        ngx_log_error(NGX_LOG_INFO, c->log, 0,
                      "quic client does not read stream id:0x%xL", qs->id);
        c->write->error = 1;
        return NULL;
    }

    b = ngx_create_temp_buf(c->pool, NGX_QUIC_UNI_BUFFER_SIZE);
    if (b == NULL) {
        return NULL;
    }

    if (old) {
        b->last = ngx_cpymem(b->last, old->pos, old->last - old->pos);
    }

    qs->buffer = b;

    return b;
}


/* before output */

void
ngx_quic_flush_unis(ngx_quic_connection_t *qc)
{
    ngx_queue_t        *q;
    ngx_quic_stream_t  *qs;

    while (!ngx_queue_empty(&qc->buffered)) {
        q = ngx_queue_head(&qc->buffered);
        qs = ngx_queue_data(q, ngx_quic_stream_t, blocked);

        ngx_queue_remove(q);
        qs->is_buffered = 0;

        /* an error is for the next call to find */
        (void) ngx_quic_flush_uni(qc, qs);
    }
}


ngx_int_t
ngx_quic_flush_uni(ngx_quic_connection_t *qc, ngx_quic_stream_t *qs)
{
    ssize_t     n;
    uint64_t    code;
    ngx_buf_t  *b;

    b = qs->buffer;

    if (b == NULL || b->pos == b->last) {
        return NGX_OK;
    }

    n = quiche_conn_stream_send(qc->conn, qs->id, b->pos, b->last - b->pos,
                                false, &code);

    if (n == QUICHE_ERR_DONE) {
        /* goes on when the stream is writable */
        n = 0;
    }

    if (n < 0) {
        qs->connection->write->error = 1;
        return NGX_ERROR;
    }

    ngx_memmove(b->start, b->pos + n, b->last - b->pos - n);
    b->last = b->start + (b->last - b->pos - n);
    b->pos = b->start;

    return NGX_OK;
}


static ngx_chain_t *
ngx_quic_stream_send_chain(ngx_connection_t *c, ngx_chain_t *in, off_t limit)
{
    bool                    fin;
    off_t                   total, room;
    size_t                  size;
    ssize_t                 n;
    uint64_t                code;
    ngx_event_t            *wev;
    ngx_quic_piece_t        piece;
    ngx_quic_stream_t      *qs;
    ngx_quic_connection_t  *qc;

    qs = c->quic;
    wev = c->write;
    qc = ngx_quic_get_connection(qs->parent);

    if (qs->send_fin || qs->send_reset || qc->closing) {
        wev->error = 1;
        return NGX_CHAIN_ERROR;
    }

    /*
     * quiche would take as much as the congestion windows allow; a buffer of
     * the configured size suffices to keep them full, and stays in the cache
     */

    room = (off_t) qc->conf->stream_buffer_size
           - quiche_conn_stream_unsent(qc->conn, qs->id);

    if (room <= 0) {
        ngx_quic_block_stream(qc, qs);
        return in;
    }

    if (limit == 0 || limit > room) {
        limit = room;
    }

    total = 0;

    for ( ;; ) {

        if (ngx_quic_gather(in, limit - total, &piece) != NGX_OK) {
            wev->error = 1;
            return NGX_CHAIN_ERROR;
        }

        size = piece.size;
        fin = piece.fin;

        if (size == 0 && !fin) {
            break;
        }

        if (piece.file) {
            n = quiche_conn_stream_send_with(qc->conn, qs->id, size, fin,
                                             ngx_quic_read_buffers, piece.file,
                                             &code);

        } else {
            n = quiche_conn_stream_send(qc->conn, qs->id, piece.data, size, fin,
                                        &code);
        }

        if (n == QUICHE_ERR_DONE) {
            wev->ready = 0;
            break;
        }

        if (n < 0) {
            ngx_log_debug2(NGX_LOG_DEBUG_EVENT, c->log, 0,
                           "quic stream id:0x%xL send failed: %z", qs->id, n);

            if (n == QUICHE_ERR_STREAM_STOPPED) {
                qs->send_reset = 1;
            }

            wev->error = 1;
            return NGX_CHAIN_ERROR;
        }

        in = ngx_chain_update_sent(in, n);
        c->sent += n;
        total += n;

        if ((size_t) n < size) {
            wev->ready = 0;
            break;
        }

        if (fin) {
            qs->send_fin = 1;
            break;
        }
    }

    /* a flush is done when what is before it is */

    while (in && (ngx_buf_special(in->buf) || ngx_buf_size(in->buf) == 0)) {
        in = in->next;
    }

    if (total == room) {
        ngx_quic_block_stream(qc, qs);
    }

    ngx_log_debug3(NGX_LOG_DEBUG_EVENT, c->log, 0,
                   "quic stream id:0x%xL send_chain: %O fin:%d",
                   qs->id, total, (int) qs->send_fin);

    ngx_quic_post_push(qc);

    return in;
}


/*
 * What quiche is given next, up to the limit: short buffers together, since a
 * call costs more than their copy, and the end of the stream with the last.
 */

static ngx_int_t
ngx_quic_gather(ngx_chain_t *in, off_t limit, ngx_quic_piece_t *piece)
{
    off_t       len;
    u_char     *p;
    ngx_buf_t  *b;

    static u_char  buf[NGX_QUIC_GATHER_SIZE];

    ngx_memzero(piece, sizeof(ngx_quic_piece_t));

    p = buf;

    for ( /* void */ ; in; in = in->next) {
        b = in->buf;

        len = ngx_buf_special(b) ? 0 : ngx_buf_size(b);

        if (len) {

            if (limit == 0) {
                break;
            }

            if (piece->size == 0
                && (in->next == NULL
                    || len > limit
                    || len > NGX_QUIC_GATHER_SIZE / 2))
            {
                piece->size = (size_t) ngx_min(len, limit);
                piece->fin = (b->last_buf && (off_t) piece->size == len);

                if (ngx_buf_in_memory(b)) {
                    piece->data = b->pos;

                } else {
                    piece->file = b;
                }

                break;
            }

            if (len > limit || len > buf + NGX_QUIC_GATHER_SIZE - p) {
                break;
            }

            if (ngx_buf_in_memory(b)) {
                p = ngx_cpymem(p, b->pos, len);

            } else {
                if (ngx_quic_read_buffer(b, 0, p, len) != NGX_OK) {
                    return NGX_ERROR;
                }

                p += len;
            }

            limit -= len;

            piece->data = buf;
            piece->size = p - buf;
        }

        if (b->last_buf) {
            piece->fin = true;
            break;
        }
    }

    return NGX_OK;
}


/* reads a file to where it is sent from, without another copy of it */

static bool
ngx_quic_read_buffers(const struct iovec *iov, size_t n, void *data)
{
    off_t       done;
    size_t      i, size;
    ssize_t     rc;
    ngx_buf_t  *b = data;

    rc = 0;

#if (NGX_LINUX || NGX_FREEBSD)

    do {
        rc = preadv(b->file->fd, iov, n, b->file_pos);
    } while (rc == -1 && ngx_errno == NGX_EINTR);

    /* an error, and an end that comes too soon, is found and told below */
    rc = ngx_max(rc, 0);

#endif

    done = 0;

    for (i = 0; i < n; i++) {
        size = ngx_min(iov[i].iov_len, (size_t) rc);
        rc -= size;

        if (size < iov[i].iov_len
            && ngx_quic_read_buffer(b, done + size,
                                    (u_char *) iov[i].iov_base + size,
                                    iov[i].iov_len - size)
               != NGX_OK)
        {
            return false;
        }

        done += iov[i].iov_len;
    }

    return true;
}


static ngx_int_t
ngx_quic_read_buffer(ngx_buf_t *b, off_t offset, u_char *p, size_t size)
{
    ssize_t  n;

    while (size) {
        n = ngx_read_file(b->file, p, size, b->file_pos + offset);

        if (n == NGX_ERROR) {
            return NGX_ERROR;
        }

        if (n == 0) {
            ngx_log_error(NGX_LOG_ALERT, b->file->log, 0,
                          "\"%V\" was truncated while it was sent, at %O",
                          &b->file->name, b->file_pos + offset);
            return NGX_ERROR;
        }

        p += n;
        offset += n;
        size -= n;
    }

    return NGX_OK;
}


static void
ngx_quic_block_stream(ngx_quic_connection_t *qc, ngx_quic_stream_t *qs)
{
    qs->connection->write->ready = 0;

    if (!qs->is_blocked) {
        qs->is_blocked = 1;
        ngx_queue_insert_tail(&qc->blocked, &qs->blocked);
    }
}


/* after output: streams whose buffers have room again */

void
ngx_quic_wake_streams(ngx_quic_connection_t *qc)
{
    ssize_t             n;
    ngx_queue_t        *q;
    ngx_quic_stream_t  *qs;

    q = ngx_queue_head(&qc->blocked);

    while (q != ngx_queue_sentinel(&qc->blocked)) {
        qs = ngx_queue_data(q, ngx_quic_stream_t, blocked);
        q = ngx_queue_next(q);

        n = quiche_conn_stream_unsent(qc->conn, qs->id);

        if (n > (ssize_t) (qc->conf->stream_buffer_size / 2)) {
            continue;
        }

        ngx_queue_remove(&qs->blocked);
        qs->is_blocked = 0;

        ngx_quic_set_event(qs->connection->write);
    }
}


ngx_int_t
ngx_quic_reset_stream(ngx_connection_t *c, ngx_uint_t err)
{
    ngx_quic_stream_t      *qs;
    ngx_quic_connection_t  *qc;

    qs = c->quic;
    qc = ngx_quic_get_connection(qs->parent);

    if (qs->send_reset
        || ((qs->id & NGX_QUIC_STREAM_UNIDIRECTIONAL)
            && !(qs->id & NGX_QUIC_STREAM_SERVER_INITIATED)))
    {
        return NGX_OK;
    }

    qs->send_reset = 1;
    c->write->error = 1;

    ngx_log_debug1(NGX_LOG_DEBUG_EVENT, c->log, 0,
                   "quic stream id:0x%xL reset", qs->id);

    (void) quiche_conn_stream_shutdown(qc->conn, qs->id, QUICHE_SHUTDOWN_WRITE,
                                       err);

    ngx_quic_post_push(qc);

    return NGX_OK;
}


ngx_int_t
ngx_quic_shutdown_stream(ngx_connection_t *c, int how)
{
    uint64_t                code;
    ngx_quic_stream_t      *qs;
    ngx_quic_connection_t  *qc;

    qs = c->quic;
    qc = ngx_quic_get_connection(qs->parent);

    if ((how == NGX_RDWR_SHUTDOWN || how == NGX_WRITE_SHUTDOWN)
        && !qs->send_fin && !qs->send_reset)
    {
        (void) ngx_quic_flush_uni(qc, qs);

        qs->send_fin = 1;

        /* needs no room in a window */

        (void) quiche_conn_stream_send(qc->conn, qs->id, NULL, 0, true, &code);
    }

    if ((how == NGX_RDWR_SHUTDOWN || how == NGX_READ_SHUTDOWN)
        && !qs->recv_fin && !qs->recv_reset)
    {
        qs->recv_reset = 1;

        (void) quiche_conn_stream_shutdown(qc->conn, qs->id,
                                           QUICHE_SHUTDOWN_READ,
                                           qc->conf->stream_close_code);
    }

    ngx_quic_post_push(qc);

    return NGX_OK;
}
