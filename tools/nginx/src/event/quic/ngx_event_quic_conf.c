
/*
 * Copyright (C) 2026, the mpq authors
 *
 * quiche's configuration from nginx's.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_quic_connection.h>


/* what one UDP payload may have: Ethernet without the headers of IPv4 */
#define NGX_QUIC_MAX_SEND_SIZE  1472


static void ngx_quic_free_transport_config(void *data);


/* of all connections of this worker */
quiche_send_budget  *ngx_quic_send_budget;


ngx_int_t
ngx_quic_check_congestion_control(ngx_str_t *name, u_char *reason, size_t size)
{
    return quiche_check_cc_algorithm_name((char *) name->data, (char *) reason,
                                          size)
           ? NGX_ERROR : NGX_OK;
}


ngx_int_t
ngx_quic_check_scheduler(ngx_str_t *name, u_char *reason, size_t size)
{
    return quiche_check_scheduler_name((char *) name->data, (char *) reason,
                                       size)
           ? NGX_ERROR : NGX_OK;
}


/*
 * Made when the first client of a server arrives: most servers of a large
 * configuration have no QUIC listener, and quiche_config_new() makes an
 * SSL_CTX, which is not used here.
 */

quiche_config *
ngx_quic_transport_config(ngx_quic_conf_t *conf, ngx_log_t *log)
{
    size_t               window, max;
    quiche_config       *config;
    ngx_pool_cleanup_t  *cln;

    if (conf->transport) {
        return conf->transport;
    }

    cln = ngx_pool_cleanup_add(ngx_cycle->pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    config = quiche_config_new(QUICHE_PROTOCOL_VERSION);
    if (config == NULL) {
        ngx_log_error(NGX_LOG_ALERT, log, 0, "quiche_config_new() failed");
        return NULL;
    }

    window = conf->stream_buffer_size
             * (conf->max_concurrent_streams_bidi
                + conf->max_concurrent_streams_uni);

    max = ngx_max(conf->receive_window, conf->stream_buffer_size);

    quiche_config_set_max_idle_timeout(config, conf->idle_timeout);
    quiche_config_set_max_recv_udp_payload_size(config,
                                               NGX_QUIC_MAX_UDP_PAYLOAD_SIZE);
    quiche_config_set_max_send_udp_payload_size(config, NGX_QUIC_MAX_SEND_SIZE);
    quiche_config_discover_pmtu(config, true);

    quiche_config_set_initial_max_data(config, window);
    quiche_config_set_max_connection_window(config, ngx_max(window, 2 * max));
    quiche_config_set_initial_max_stream_data_bidi_local(config,
                                                     conf->stream_buffer_size);
    quiche_config_set_initial_max_stream_data_bidi_remote(config,
                                                     conf->stream_buffer_size);
    quiche_config_set_initial_max_stream_data_uni(config,
                                                  conf->stream_buffer_size);

    /* grows from there while nginx takes what comes within two round trips */
    quiche_config_set_max_stream_window(config, max);

    /* short responses need no packet each */
    quiche_config_set_share_packets(config, true);

    quiche_config_set_initial_max_streams_bidi(config,
                                           conf->max_concurrent_streams_bidi);
    quiche_config_set_initial_max_streams_uni(config,
                                           conf->max_concurrent_streams_uni);

    quiche_config_set_ack_delay_exponent(config,
                                         NGX_QUIC_DEFAULT_ACK_DELAY_EXPONENT);
    quiche_config_set_max_ack_delay(config, NGX_QUIC_DEFAULT_MAX_ACK_DELAY);
    quiche_config_set_disable_active_migration(config,
                                               conf->disable_active_migration);
    quiche_config_set_active_connection_id_limit(config,
                                             conf->active_connection_id_limit);

    quiche_config_enable_paced_sending(config, true);
    quiche_config_enable_ack_detours(config, conf->ack_detours);
    quiche_config_enable_ack_frequency(config, conf->ack_frequency);
    quiche_config_enable_ecn(config, conf->ecn);

    if (quiche_config_set_cc_algorithm_name(config,
                                     (char *) conf->congestion_control.data)
        != 0
        || quiche_config_set_scheduler_name(config,
                                            (char *) conf->scheduler.data)
           != 0
        || (conf->multipath
            && quiche_config_set_initial_max_path_id(config,
                                                     conf->max_paths - 1)
               != 0))
    {
        ngx_log_error(NGX_LOG_ALERT, log, 0,
                      "quic transport settings are not valid");
        quiche_config_free(config);
        return NULL;
    }

    if (conf->send_buffer) {
        quiche_config_set_max_send_buffer(config, conf->send_buffer);
    }

    /* servers have it from the same directive of the http block */

    if (conf->send_budget && ngx_quic_send_budget == NULL) {
        ngx_quic_send_budget = quiche_send_budget_new(conf->send_budget);
    }

    if (ngx_quic_send_budget) {
        quiche_config_set_send_budget(config, ngx_quic_send_budget);
    }

    cln->handler = ngx_quic_free_transport_config;
    cln->data = conf;

    conf->transport = config;

    return config;
}


static void
ngx_quic_free_transport_config(void *data)
{
    ngx_quic_conf_t *conf = data;

    quiche_config_free(conf->transport);
    conf->transport = NULL;
}


/*
 * What a client remembers for 0-RTT. With other limits, 0-RTT is refused (RFC
 * 9000, 7.4.1); quiche's own context has no limits in it.
 */

size_t
ngx_quic_early_data_context(ngx_quic_conf_t *conf, u_char *out, size_t len)
{
    u_char  *p;

    p = ngx_snprintf(out, len, "mpq:%uz:%ui:%ui:%ui:%ui",
                     conf->stream_buffer_size,
                     conf->max_concurrent_streams_bidi,
                     conf->max_concurrent_streams_uni,
                     conf->active_connection_id_limit,
                     conf->multipath ? conf->max_paths : 0);

    return p - out;
}
