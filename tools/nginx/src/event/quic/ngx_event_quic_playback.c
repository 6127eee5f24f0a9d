
/*
 * Copyright (C) 2026, the mpq authors
 *
 * What the scheduler can know beside the network: how a client's playback goes,
 * until when it needs a response, and how long a response will be.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_quic_connection.h>


/* of all requests of a connection the newest report counts */

void
ngx_quic_report_playback(ngx_connection_t *c, ngx_quic_playback_t *playback)
{
    int                     rc;
    uint64_t                bitrate;
    ngx_uint_t              stalled;
    ngx_quic_stream_t      *qs;
    ngx_quic_connection_t  *qc;

    qs = c->quic;
    qc = ngx_quic_get_connection(qs->parent);

    if (qc->closing) {
        return;
    }

    stalled = ngx_quic_is_stalled(playback);

    if (playback->buffer_ms >= 0 || stalled) {

        bitrate = (playback->bitrate_kbps > 0)
                  ? (uint64_t) playback->bitrate_kbps * 1000 : 0;

        /* one that stands and does not say more has nothing buffered */

        rc = quiche_conn_report_qoe(qc->conn, ngx_max(playback->buffer_ms, 0),
                                    bitrate, stalled);

        if (rc == 0) {
            qc->playback = *playback;
            qc->playback_time = ngx_current_msec;
            qc->nreports++;
            ngx_quic_status->qoe_reports++;
        }
    }

    if (playback->deadline_ms >= 0) {
        rc = quiche_conn_stream_deadline(qc->conn, qs->id,
                                         playback->deadline_ms);

        if (rc == 0) {
            ngx_quic_status->deadlines++;
        }
    }

    ngx_log_debug4(NGX_LOG_DEBUG_EVENT, c->log, 0,
                   "quic stream id:0x%xL playback buffer:%L deadline:%L "
                   "stalled:%ui", qs->id, playback->buffer_ms,
                   playback->deadline_ms, stalled);

    ngx_quic_post_push(qc);
}


/* a response that fits into the buffer ends before anybody could use its length */

void
ngx_quic_announce_length(ngx_connection_t *c, off_t length)
{
    ngx_quic_stream_t      *qs;
    ngx_quic_connection_t  *qc;

    qs = c->quic;
    qc = ngx_quic_get_connection(qs->parent);

    if (length <= (off_t) qc->conf->stream_buffer_size || qc->closing) {
        return;
    }

    (void) quiche_conn_stream_announce(qc->conn, qs->id, length);
}
