/*
 * Downloads bytes over several paths at once, and prints what each of them carried: the client of
 * ../rust/src/bin/client.rs with the C interface and poll(2).
 *
 *   cc client.c $(pkg-config --cflags --libs quiche) -o client
 *   ./client cert.pem 8000000 127.0.0.1 127.0.0.1:4433 127.0.0.2 127.0.0.2:4433
 *
 * Each pair is a path: an IPv4 address of ours, and one of the server's with its port.
 */

#define _DEFAULT_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <quiche.h>

#define MAX_PATHS 4
#define CID_LEN 16
#define TOKEN_LEN 16

/* A path that is wanted, and its socket. */
struct path {
    int socket;
    struct sockaddr_in local, server;
};

static struct path paths[MAX_PATHS];
static int path_count;

static uint8_t buffer[65535];

static void fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

/* Connection IDs and the tokens of stateless resets must not be guessed. */
static void fill_random(uint8_t *out, size_t len) {
    if (getrandom(out, len, 0) != (ssize_t) len) fail("no random numbers: %s", strerror(errno));
}

static struct sockaddr_in address(const char *text) {
    struct sockaddr_in addr = { .sin_family = AF_INET };
    char host[INET_ADDRSTRLEN] = "";
    unsigned port = 0;

    if (sscanf(text, "%15[0-9.]:%u", host, &port) < 1 || port > 65535 ||
        inet_pton(AF_INET, host, &addr.sin_addr) != 1)
        fail("not an IPv4 address with or without a port: %s", text);
    addr.sin_port = htons((uint16_t) port);
    return addr;
}

static void open_socket(struct path *path, const char *local, const char *server) {
    socklen_t len = sizeof(path->local);

    path->local = address(local);
    path->server = address(server);
    path->socket = socket(AF_INET, SOCK_DGRAM, 0);
    if (path->socket < 0 || bind(path->socket, (struct sockaddr *) &path->local, len) != 0 ||
        /* quiche wants to know the port too. */
        getsockname(path->socket, (struct sockaddr *) &path->local, &len) != 0)
        fail("%s: %s", local, strerror(errno));
}

static quiche_config *new_config(const char *cert) {
    static const uint8_t alpn[] = "\x09two-paths";
    quiche_config *config = quiche_config_new(QUICHE_PROTOCOL_VERSION);

    if (config == NULL) fail("no configuration");
    if (quiche_config_load_verify_locations_from_file(config, cert) != 0)
        fail("%s: not a file of certificates", cert);
    quiche_config_verify_peer(config, true);
    if (quiche_config_set_application_protos(config, alpn, sizeof(alpn) - 1) != 0) fail("bad ALPN");
    quiche_config_set_max_idle_timeout(config, 10000);
    quiche_config_set_initial_max_data(config, 16 << 20);
    quiche_config_set_initial_max_stream_data_bidi_local(config, 16 << 20);
    /* 1. Offer multipath: the path IDs 0 to 3 may be used at first. */
    if (quiche_config_set_initial_max_path_id(config, 3) != 0) fail("bad path ID");
    return config;
}

/* Sends what there is to send, each datagram from the address that quiche says. */
static void flush(quiche_conn *conn) {
    quiche_send_info info;
    ssize_t len;

    while ((len = quiche_conn_send(conn, buffer, 1350, &info)) != QUICHE_ERR_DONE) {
        const struct sockaddr_in *from = (const struct sockaddr_in *) &info.from;

        if (len < 0) fail("quiche_conn_send: %zd", len);
        for (int i = 0; i < path_count; i++) {
            if (paths[i].local.sin_addr.s_addr != from->sin_addr.s_addr ||
                paths[i].local.sin_port != from->sin_port)
                continue;
            if (sendto(paths[i].socket, buffer, (size_t) len, 0, (struct sockaddr *) &info.to,
                       info.to_len) < 0) {
                perror("sendto");
                /* What this path carried moves to the others at once. */
                quiche_conn_report_link_down(conn, (struct sockaddr *) &info.from, info.from_len);
            }
        }
    }
}

/* Waits for datagrams, but no longer than quiche wants, and hands over what has come. */
static void receive(quiche_conn *conn) {
    struct pollfd fds[MAX_PATHS];
    uint64_t timeout = quiche_conn_timeout_as_millis(conn);

    for (int i = 0; i < path_count; i++)
        fds[i] = (struct pollfd) { .fd = paths[i].socket, .events = POLLIN };
    /* Rounded up, so as not to ask for less than a millisecond again and again; UINT64_MAX is never. */
    if (poll(fds, (nfds_t) path_count, timeout < 60000 ? (int) timeout + 1 : 60000) < 0 && errno != EINTR)
        fail("poll: %s", strerror(errno));

    for (int i = 0; i < path_count; i++) {
        for (int n = 0; n < 64; n++) {
            struct sockaddr_storage from;
            socklen_t from_len = sizeof(from);
            ssize_t len = recvfrom(paths[i].socket, buffer, sizeof(buffer), MSG_DONTWAIT,
                                   (struct sockaddr *) &from, &from_len);
            if (len < 0) break;

            /* It asks on which socket a datagram came. */
            quiche_recv_info info = {
                .from = (struct sockaddr *) &from,
                .from_len = from_len,
                .to = (struct sockaddr *) &paths[i].local,
                .to_len = sizeof(paths[i].local),
            };
            len = quiche_conn_recv(conn, buffer, (size_t) len, &info);
            /* If it matters, the connection closes. */
            if (len < 0 && len != QUICHE_ERR_DONE) fprintf(stderr, "quiche_conn_recv: %zd\n", len);
        }
    }
    quiche_conn_on_timeout(conn); /* does what is due, which is often nothing */
}

/* The server needs a Connection ID of ours for each path ID that it is to use. */
static void supply_connection_ids(quiche_conn *conn) {
    quiche_path_id_iter *lacking = quiche_conn_path_ids_lacking_scids(conn);
    uint8_t scid[CID_LEN], token[TOKEN_LEN];
    uint64_t path_id, seq;

    while (quiche_path_id_iter_next(lacking, &path_id)) {
        fill_random(scid, CID_LEN);
        fill_random(token, TOKEN_LEN);
        int rc = quiche_conn_new_scid_on_path(conn, path_id, scid, CID_LEN, token, false, &seq);
        if (rc != 0) fail("quiche_conn_new_scid_on_path: %d", rc);
    }
    quiche_path_id_iter_free(lacking);
}

/* Opens the paths from `opened` on; returns how many there are. That works once the handshake is confirmed
 * and the server's Connection IDs are there: QUICHE_PATH_EVENT_PATH_IDS_AVAILABLE tells when to try again. */
static int open_paths(quiche_conn *conn, int opened) {
    while (opened < path_count && quiche_conn_is_multipath(conn)) {
        const struct path *path = &paths[opened];
        uint64_t path_id;
        int rc = quiche_conn_open_path(conn, (const struct sockaddr *) &path->local, sizeof(path->local),
                                       (const struct sockaddr *) &path->server, sizeof(path->server),
                                       &path_id);

        if (rc == QUICHE_ERR_DONE || rc == QUICHE_ERR_OUT_OF_IDENTIFIERS) break;
        if (rc != 0) fail("quiche_conn_open_path: %d", rc);
        opened++;
    }
    return opened;
}

static void tell_events(quiche_conn *conn) {
    quiche_path_event *event;

    while ((event = quiche_conn_path_event_next(conn)) != NULL) {
        uint64_t path_id, error_code;
        struct sockaddr_storage local, peer;
        socklen_t local_len, peer_len;
        bool by_peer;

        switch (quiche_path_event_type(event)) {
            case QUICHE_PATH_EVENT_AVAILABLE:
                quiche_path_event_available(event, &path_id, &local, &local_len, &peer, &peer_len);
                printf("path %" PRIu64 " is available\n", path_id);
                break;
            case QUICHE_PATH_EVENT_ABANDONED:
                quiche_path_event_abandoned(event, &path_id, &error_code, &by_peer);
                printf("path %" PRIu64 " has ended\n", path_id);
                break;
            default:
                break;
        }
        quiche_path_event_free(event);
    }
}

static void print_paths(const quiche_conn *conn) {
    quiche_stats stats;
    quiche_path_stats path;
    char local[INET_ADDRSTRLEN];

    quiche_conn_stats(conn, &stats);
    for (size_t i = 0; i < stats.paths_count && quiche_conn_path_stats(conn, i, &path) == 0; i++) {
        const struct sockaddr_in *addr = (const struct sockaddr_in *) &path.local_addr;

        inet_ntop(AF_INET, &addr->sin_addr, local, sizeof(local));
        printf("path %" PRIu64 " at %s:%u: %" PRIu64 " bytes received\n", path.path_id, local,
               ntohs(addr->sin_port), path.recv_bytes);
    }
}

int main(int argc, char **argv) {
    uint64_t received = 0, error_code;
    bool is_asked = false, is_end = false;
    uint8_t scid[CID_LEN];
    int opened = 1;

    path_count = (argc - 3) / 2;
    if (path_count < 1 || path_count > MAX_PATHS || argc != 3 + 2 * path_count)
        fail("usage: client CERT BYTES LOCAL SERVER:PORT [LOCAL SERVER:PORT]...");
    uint64_t bytes = strtoull(argv[2], NULL, 10);

    /* 2. A socket for each path. The handshake takes the first one. */
    for (int i = 0; i < path_count; i++) open_socket(&paths[i], argv[3 + 2 * i], argv[4 + 2 * i]);

    quiche_config *config = new_config(argv[1]);
    fill_random(scid, CID_LEN);
    quiche_conn *conn = quiche_connect("localhost", scid, CID_LEN,
                                       (struct sockaddr *) &paths[0].local, sizeof(paths[0].local),
                                       (struct sockaddr *) &paths[0].server, sizeof(paths[0].server), config);
    if (conn == NULL) fail("quiche_connect failed");

    while (!quiche_conn_is_closed(conn)) {
        flush(conn);
        receive(conn);

        /* 3. What multipath adds. */
        supply_connection_ids(conn);
        opened = open_paths(conn, opened);
        tell_events(conn);

        /* 4. Streams know nothing of paths. */
        if (quiche_conn_is_established(conn) && !is_asked) {
            ssize_t len = quiche_conn_stream_send(conn, 0, (uint8_t *) argv[2], strlen(argv[2]), true, &error_code);
            if (len < 0) fail("quiche_conn_stream_send: %zd", len);
            is_asked = true;
        }
        while (!is_end && quiche_conn_stream_readable(conn, 0)) {
            ssize_t len = quiche_conn_stream_recv(conn, 0, buffer, sizeof(buffer), &is_end, &error_code);
            if (len < 0) fail("quiche_conn_stream_recv: %zd", len);
            for (ssize_t i = 0; i < len; i++, received++)
                if (buffer[i] != received % 251) fail("wrong byte at %" PRIu64, received);
            if (is_end) {
                print_paths(conn);
                quiche_conn_close(conn, true, 0, (const uint8_t *) "done", 4);
            }
        }
    }

    quiche_conn_free(conn);
    quiche_config_free(config);
    if (!is_end || received != bytes) fail("%" PRIu64 " of %" PRIu64 " bytes", received, bytes);
    printf("%" PRIu64 " bytes, each as it should be\n", received);
    return 0;
}
