
typedef struct {
    ngx_int_t      rc;
    uint32_t       version;
    uint32_t       type;
    const u_char  *dcid;
    size_t         dcid_len;
    const u_char  *scid;
    size_t         scid_len;
    const u_char  *token;
    size_t         token_len;
} harness_header_t;


void
harness_parse_header(u_char *data, size_t len, harness_header_t *out)
{
    static ngx_quic_header_t  pkt;

    ngx_quic_datagram_t  dgram;

    memset(&dgram, 0, sizeof(dgram));
    dgram.data = data;
    dgram.len = len;

    out->rc = ngx_quic_parse_header(&dgram, &pkt);
    out->version = pkt.version;
    out->type = (uint32_t) pkt.type;
    out->dcid = pkt.dcid;
    out->dcid_len = pkt.dcid_len;
    out->scid = pkt.scid;
    out->scid_len = pkt.scid_len;
    out->token = pkt.token.data;
    out->token_len = pkt.token.len;
}
