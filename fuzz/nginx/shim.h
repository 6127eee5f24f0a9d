/*
 * Copyright (C) 2026, the mpq authors
 *
 * As much of nginx's types as reading a datagram's header takes.
 */

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>

#define NGX_OK       0
#define NGX_ERROR   -1
#define NGX_ABORT   -6

#define QUICHE_MAX_CONN_ID_LEN  20

#define ngx_memcpy(dst, src, n)  memcpy(dst, src, n)
#define ngx_memzero(buf, n)      memset(buf, 0, n)

typedef intptr_t   ngx_int_t;
typedef uintptr_t  ngx_uint_t;

typedef struct {
    size_t   len;
    u_char  *data;
} ngx_str_t;

typedef union {
    struct sockaddr_storage  storage;
} ngx_sockaddr_t;

int quiche_version_is_supported(uint32_t version);
