
/*
 * Copyright (C) Nginx, Inc.
 * Copyright (C) 2026, the mpq authors
 *
 * "quic_bpf on": the kernel gives each datagram to the socket of the worker
 * that its Destination Connection ID leads to (ngx_event_quic_connection.h).
 *
 * Each listening address has a group of sockets, one for each worker, and gets
 * a program and a map from worker number to socket. Sockets are inherited over
 * a reload as usual, and so is their worker's number: a datagram for a worker
 * of an older generation reaches the newest one of that number, which hands it
 * over (ngx_event_quic_workers.c). Program and map are made anew each time and
 * replace what was attached before, so nothing needs to be handed on, not even
 * to another binary.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_quic_connection.h>


#define NGX_QUIC_BPF_MAP      "ngx_quic_workers"

#ifndef SO_ATTACH_REUSEPORT_EBPF
#define SO_ATTACH_REUSEPORT_EBPF  52
#endif

/* the program's stack: the packet's first octets, the connection ID, so that
 * what is hashed is aligned, and the key of the map */
#define NGX_QUIC_BPF_PKT      -40
#define NGX_QUIC_BPF_CID      -25
#define NGX_QUIC_BPF_BLOCK    (NGX_QUIC_BPF_CID + NGX_QUIC_CID_BLOCK)
#define NGX_QUIC_BPF_ROUTE    (NGX_QUIC_BPF_CID + NGX_QUIC_CID_ROUTE)
#define NGX_QUIC_BPF_KEY      -4

/* offsets in a packet; it is after the UDP header */
#define NGX_QUIC_BPF_UDP      8
#define NGX_QUIC_BPF_SHORT    1
#define NGX_QUIC_BPF_DCIL     5
#define NGX_QUIC_BPF_LONG     6

#define ngx_quic_bpf_get_conf(cycle)                                          \
    (ngx_quic_bpf_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_quic_bpf_module)


typedef struct {
    ngx_flag_t            enabled;
} ngx_quic_bpf_conf_t;


static void *ngx_quic_bpf_create_conf(ngx_cycle_t *cycle);
static ngx_int_t ngx_quic_bpf_module_init(ngx_cycle_t *cycle);
static ngx_int_t ngx_quic_bpf_attach(ngx_cycle_t *cycle, ngx_listening_t *ls);
static void ngx_quic_bpf_set_key(void);
static void ngx_quic_bpf_close(ngx_log_t *log, int fd);


static ngx_command_t  ngx_quic_bpf_commands[] = {

    { ngx_string("quic_bpf"),
      NGX_MAIN_CONF|NGX_DIRECT_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      0,
      offsetof(ngx_quic_bpf_conf_t, enabled),
      NULL },

      ngx_null_command
};


static ngx_core_module_t  ngx_quic_bpf_module_ctx = {
    ngx_string("quic_bpf"),
    ngx_quic_bpf_create_conf,
    NULL
};


ngx_module_t  ngx_quic_bpf_module = {
    NGX_MODULE_V1,
    &ngx_quic_bpf_module_ctx,              /* module context */
    ngx_quic_bpf_commands,                 /* module directives */
    NGX_CORE_MODULE,                       /* module type */
    NULL,                                  /* init master */
    ngx_quic_bpf_module_init,              /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


#define insn(code, dst, src, off, imm)                                        \
    { code, BPF_REG_##dst, BPF_REG_##src, off, imm }

#define LOAD_U8(dst, off)           insn(BPF_LDX|BPF_MEM|BPF_B, dst, 10, off, 0)
#define LOAD_U64(dst, off)          insn(BPF_LDX|BPF_MEM|BPF_DW, dst, 10, off, 0)
#define STORE_U32(off, src)         insn(BPF_STX|BPF_MEM|BPF_W, 10, src, off, 0)
#define MOVE(dst, src)              insn(BPF_ALU64|BPF_MOV|BPF_X, dst, src, 0, 0)
#define SET(dst, imm)               insn(BPF_ALU64|BPF_MOV|BPF_K, dst, 0, 0, imm)
#define ADD(dst, imm)               insn(BPF_ALU64|BPF_ADD|BPF_K, dst, 0, 0, imm)
#define ADD_TO(dst, src)            insn(BPF_ALU64|BPF_ADD|BPF_X, dst, src, 0, 0)
#define AND(dst, imm)               insn(BPF_ALU64|BPF_AND|BPF_K, dst, 0, 0, imm)
#define SHIFT(dst, imm)             insn(BPF_ALU64|BPF_LSH|BPF_K, dst, 0, 0, imm)
#define SHIFT_RIGHT(dst, imm)       insn(BPF_ALU64|BPF_RSH|BPF_K, dst, 0, 0, imm)
#define OR(dst, src)                insn(BPF_ALU64|BPF_OR|BPF_X, dst, src, 0, 0)
#define XOR(dst, src)               insn(BPF_ALU64|BPF_XOR|BPF_X, dst, src, 0, 0)
#define LITTLE_ENDIAN_64(dst)       insn(BPF_ALU|BPF_END|BPF_TO_LE, dst, 0, 0, 64)
#define IF_BITS(a, imm, to)         insn(BPF_JMP|BPF_JSET|BPF_K, a, 0, to, imm)
#define IF_NOT(a, imm, to)          insn(BPF_JMP|BPF_JNE|BPF_K, a, 0, to, imm)
#define GOTO(to)                    insn(BPF_JMP|BPF_JA, 0, 0, to, 0)
#define CALL(n)                     insn(BPF_JMP|BPF_CALL, 0, 0, 0, n)
#define EXIT                        insn(BPF_JMP|BPF_EXIT, 0, 0, 0, 0)
/* two instructions; the loader puts the map's descriptor in */
#define LOAD_MAP(dst)               insn(BPF_LD|BPF_IMM|BPF_DW, dst, 0, 0, 0), \
                                    insn(0, 0, 0, 0, 0)
/* the same, for a constant */
#define SET_U64(dst)                LOAD_MAP(dst)

#define ROTATE(dst, n)              MOVE(5, dst), SHIFT(dst, n),              \
                                    SHIFT_RIGHT(5, 64 - (n)), OR(dst, 5)

/* SipHash (Aumasson and Bernstein, 2012); its v0 to v3 are in 1 to 4 */
#define SIP_ROUND                                                             \
    ADD_TO(1, 2), ROTATE(2, 13), XOR(2, 1), ROTATE(1, 32),                    \
    ADD_TO(3, 4), ROTATE(4, 16), XOR(4, 3),                                   \
    ADD_TO(1, 4), ROTATE(4, 21), XOR(4, 1),                                   \
    ADD_TO(3, 2), ROTATE(2, 17), XOR(2, 3), ROTATE(3, 32)

/* SipHash-2-4 */
#define SIP_COMPRESS(word)  XOR(4, word), SIP_ROUND, SIP_ROUND, XOR(1, word)

/*
 * Jumps are relative to the next instruction, as the numbers on the left; none
 * is longer than to "hash". What the kernel segments is not in the directly
 * accessible part of a packet, so that is not used.
 */

static struct bpf_insn  ngx_quic_bpf_code[] = {
    /*  0 */ MOVE(6, 1),
    /*  1 */ SET(2, NGX_QUIC_BPF_UDP),
    /*  2 */ MOVE(3, 10),
    /*  3 */ ADD(3, NGX_QUIC_BPF_PKT),
    /*  4 */ SET(4, NGX_QUIC_BPF_LONG),
    /*  5 */ CALL(BPF_FUNC_skb_load_bytes),
    /*  6 */ IF_NOT(0, 0, 14),                        /* pass: too short */
    /*  7 */ SET(2, NGX_QUIC_BPF_UDP + NGX_QUIC_BPF_SHORT),
    /*  8 */ LOAD_U8(3, NGX_QUIC_BPF_PKT),
    /*  9 */ IF_BITS(3, 0x80, 1),                     /* long */
    /* 10 */ GOTO(3),                                 /* load */
    /* 11    long: */
             SET(2, NGX_QUIC_BPF_UDP + NGX_QUIC_BPF_LONG),
    /* 12 */ LOAD_U8(3, NGX_QUIC_BPF_PKT + NGX_QUIC_BPF_DCIL),
    /* 13 */ IF_NOT(3, NGX_QUIC_CID_LEN, 7),          /* pass: not ours */
    /* 14    load: */
             MOVE(1, 6),
    /* 15 */ MOVE(3, 10),
    /* 16 */ ADD(3, NGX_QUIC_BPF_CID),
    /* 17 */ SET(4, NGX_QUIC_CID_LEN),
    /* 18 */ CALL(BPF_FUNC_skb_load_bytes),
    /* 19 */ IF_NOT(0, 0, 1),                         /* pass: too short */
    /* 20 */ GOTO(2),                                 /* hash */
    /* 21    pass, to the kernel's choice: */
             SET(0, SK_PASS),
    /* 22 */ EXIT,
    /* 23    hash: */
             LOAD_U64(7, NGX_QUIC_BPF_BLOCK),
    /* 24 */ LITTLE_ENDIAN_64(7),
    /* 25 */ LOAD_U64(8, NGX_QUIC_BPF_BLOCK + 8),
    /* 26 */ LITTLE_ENDIAN_64(8),
    /* 27 */ SET_U64(1),
    /* 29 */ SET_U64(2),
    /* 31 */ SET_U64(3),
    /* 33 */ SET_U64(4),
    /* 35 */ SIP_COMPRESS(7),
             SIP_COMPRESS(8),
             /* the last word: the length */
             SET(7, NGX_QUIC_CID_BLOCK_LEN),
             SHIFT(7, 56),
             SIP_COMPRESS(7),
             SET(5, 0xff),
             XOR(3, 5),
             SIP_ROUND,
             SIP_ROUND,
             SIP_ROUND,
             SIP_ROUND,
             XOR(1, 2),
             XOR(3, 4),
             XOR(1, 3),
             /* the number of the worker, above the random one */
             AND(1, NGX_QUIC_ROUTE_MASK),
             LOAD_U8(2, NGX_QUIC_BPF_ROUTE),
             SHIFT(2, 16),
             LOAD_U8(3, NGX_QUIC_BPF_ROUTE + 1),
             SHIFT(3, 8),
             OR(2, 3),
             LOAD_U8(3, NGX_QUIC_BPF_ROUTE + 2),
             OR(2, 3),
             XOR(1, 2),
             SHIFT_RIGHT(1, NGX_QUIC_ROUTE_SHIFT),
             STORE_U32(NGX_QUIC_BPF_KEY, 1),
             MOVE(1, 6),
             LOAD_MAP(2),
             MOVE(3, 10),
             ADD(3, NGX_QUIC_BPF_KEY),
             SET(4, 0),
             CALL(BPF_FUNC_sk_select_reuseport),
             /* to the kernel's choice if none was made */
             SET(0, SK_PASS),
             EXIT
};

#define NGX_QUIC_BPF_LEN                                                      \
    (sizeof(ngx_quic_bpf_code) / sizeof(ngx_quic_bpf_code[0]))

/* where SET_U64(1) is, and the map, from the end */
#define NGX_QUIC_BPF_STATE    27
#define NGX_QUIC_BPF_MAP_INSN (NGX_QUIC_BPF_LEN - 8)


static ngx_bpf_reloc_t  ngx_quic_bpf_relocs[] = {
    { NGX_QUIC_BPF_MAP, NGX_QUIC_BPF_MAP_INSN }
};


static ngx_bpf_program_t  ngx_quic_bpf_program = {
    .relocs = ngx_quic_bpf_relocs,
    .nrelocs = 1,
    .ins = ngx_quic_bpf_code,
    .nins = NGX_QUIC_BPF_LEN,
    .license = "BSD",
    .type = BPF_PROG_TYPE_SK_REUSEPORT,
};


static void *
ngx_quic_bpf_create_conf(ngx_cycle_t *cycle)
{
    ngx_quic_bpf_conf_t  *bcf;

    bcf = ngx_pcalloc(cycle->pool, sizeof(ngx_quic_bpf_conf_t));
    if (bcf == NULL) {
        return NULL;
    }

    bcf->enabled = NGX_CONF_UNSET;

    return bcf;
}


static ngx_int_t
ngx_quic_bpf_module_init(ngx_cycle_t *cycle)
{
    ngx_uint_t            i;
    ngx_listening_t      *ls;
    ngx_core_conf_t      *ccf;
    ngx_quic_bpf_conf_t  *bcf;

    if (ngx_test_config) {
        /* SO_REUSEPORT is not set then */
        return NGX_OK;
    }

    bcf = ngx_quic_bpf_get_conf(cycle);

    ngx_conf_init_value(bcf->enabled, 0);

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    ls = cycle->listening.elts;

    for (i = 0; i < cycle->listening.nelts; i++) {

        if (!ls[i].quic || !ls[i].reuseport || ls[i].worker != 0) {
            continue;
        }

        if (!bcf->enabled) {
            /* a program of before a reload names the same sockets: harmless */
            continue;
        }

        if (ngx_quic_bpf_attach(cycle, &ls[i]) != NGX_OK) {
            ngx_log_error(NGX_LOG_WARN, cycle->log, 0,
                          "\"quic_bpf\" does not work here (it needs CAP_BPF "
                          "and CAP_NET_ADMIN, or root, and no limit on locked "
                          "memory): workers hand datagrams over, which costs "
                          "some CPU time with %i workers",
                          ccf->worker_processes);
            return NGX_OK;
        }
    }

    return NGX_OK;
}


/* the initial state of SipHash with the key that connection IDs are made with */

static void
ngx_quic_bpf_set_key(void)
{
    size_t            i, k;
    uint64_t          key[2], word;
    struct bpf_insn  *insn;

    static const uint64_t  initial[] = {
        0x736f6d6570736575, 0x646f72616e646f6d,
        0x6c7967656e657261, 0x7465646279746573
    };

    ngx_memzero(key, sizeof(key));

    for (i = 0; i < NGX_QUIC_ROUTE_KEY_LEN; i++) {
        key[i / 8] |= (uint64_t) ngx_quic_route_key[i] << 8 * (i % 8);
    }

    for (k = 0; k < 4; k++) {
        word = initial[k] ^ key[k % 2];
        insn = &ngx_quic_bpf_code[NGX_QUIC_BPF_STATE + 2 * k];

        insn[0].imm = (int32_t) (uint32_t) word;
        insn[1].imm = (int32_t) (uint32_t) (word >> 32);
    }
}


/* for the group of sockets with the address of "first", its first one */

static ngx_int_t
ngx_quic_bpf_attach(ngx_cycle_t *cycle, ngx_listening_t *first)
{
    int               map, prog;
    uint32_t          key;
    uint64_t          fd;
    ngx_int_t         rc;
    ngx_uint_t        i;
    ngx_listening_t  *ls;
    ngx_core_conf_t  *ccf;

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    map = ngx_bpf_map_create(cycle->log, BPF_MAP_TYPE_REUSEPORT_SOCKARRAY,
                             sizeof(uint32_t), sizeof(uint64_t),
                             ccf->worker_processes, 0);
    if (map == -1) {
        return NGX_ERROR;
    }

    rc = NGX_ERROR;

    ls = cycle->listening.elts;

    for (i = 0; i < cycle->listening.nelts; i++) {

        if (!ls[i].quic || !ls[i].reuseport
            || ngx_cmp_sockaddr(ls[i].sockaddr, ls[i].socklen,
                                first->sockaddr, first->socklen, 1)
               != NGX_OK)
        {
            continue;
        }

        key = ls[i].worker;
        fd = ls[i].fd;

        if (ngx_bpf_map_update(map, &key, &fd, BPF_ANY) == -1) {
            ngx_log_error(NGX_LOG_ERR, cycle->log, ngx_errno,
                          "quic bpf failed to add the socket of worker %uD",
                          key);
            goto done;
        }
    }

    ngx_quic_bpf_set_key();

    ngx_bpf_program_link(&ngx_quic_bpf_program, NGX_QUIC_BPF_MAP, map);

    prog = ngx_bpf_load_program(cycle->log, &ngx_quic_bpf_program);
    if (prog < 0) {
        goto done;
    }

    if (setsockopt(first->fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF, &prog,
                   sizeof(int))
        == -1)
    {
        ngx_log_error(NGX_LOG_ERR, cycle->log, ngx_socket_errno,
                      "setsockopt(SO_ATTACH_REUSEPORT_EBPF) failed");

    } else {
        rc = NGX_OK;
    }

    ngx_quic_bpf_close(cycle->log, prog);

done:

    /* the program holds the map, and the sockets the program */

    ngx_quic_bpf_close(cycle->log, map);

    return rc;
}


static void
ngx_quic_bpf_close(ngx_log_t *log, int fd)
{
    if (close(fd) == -1) {
        ngx_log_error(NGX_LOG_ALERT, log, ngx_errno,
                      "quic bpf close fd:%d failed", fd);
    }
}
