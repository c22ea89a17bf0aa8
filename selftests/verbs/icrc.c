// SPDX-License-Identifier: GPL-2.0
/*
 * Recompute the ICRC of RoCEv2 packets outside the kernel.
 *
 *	icrc vectors FILE	are the ICRCs of these known packets what rxe_roce.c computes?
 *	icrc pcap FILE		one line per RoCEv2 packet of a capture: opcode, PSN, and its ICRC:
 *				"conforming", "legacy" (as Linux 6.2 to 7.3 sends FLUSH), "wrong"
 *
 * The known packets stand in hex, from the IPv4 header to the ICRC, each below a comment that names
 * it; a comment "# legacy ICRC: HEX" below gives the bytes of that.  Exit status: 0, or 1 if a
 * vector differs or the file is no good; the ICRCs of a capture are for the reader to judge.
 */
#include <arpa/inet.h>
#include <err.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <net/ethernet.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rxe_roce.h"

#define MAX_PACKET	65536
#define LEGACY		"# legacy ICRC: "

static FILE *open_file(const char *path)
{
	FILE *file = fopen(path, "r");

	if (!file)
		err(1, "%s", path);
	return file;
}

/* Up to @max bytes written in hex at the start of @text; how many they are. */
static size_t parse_hex(const char *text, __u8 *bytes, size_t max)
{
	size_t len = 0;

	while (len < max && sscanf(text + 2 * len, "%2hhx", &bytes[len]) == 1)
		len++;
	return len;
}

static bool vector_agrees(const char *name, __u32 computed, __u32 given)
{
	printf("%s: ICRC %08x, computed %08x%s\n", name, given, computed,
	       computed == given ? "" : ": DIFFERENT");
	return computed == given;
}

static int check_vectors(const char *path)
{
	char line[2 * MAX_PACKET], name[256] = "";
	__u8 packet[MAX_PACKET], legacy[ROCE_ICRC_BYTES];
	int vectors = 0, different = 0;
	FILE *file = open_file(path);
	size_t len = 0;

	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, LEGACY, strlen(LEGACY))) {
			if (!len || parse_hex(line + strlen(LEGACY), legacy, sizeof(legacy)) !=
			    sizeof(legacy))
				errx(1, "%s: a legacy ICRC without a packet, or cut short", path);
			vectors++;
			different += !vector_agrees("  the legacy way",
						    roce_icrc_legacy(packet, len),
						    roce_icrc_get(legacy, 0));
		} else if (line[0] == '#') {
			snprintf(name, sizeof(name), "%s", line + strspn(line, "# "));
		} else if (line[0]) {
			len = parse_hex(line, packet, sizeof(packet));
			if (2 * len != strlen(line) || len <= ROCE_ICRC_BYTES)
				errx(1, "%s: not a packet in hex: %s", path, line);
			len -= ROCE_ICRC_BYTES;
			vectors++;
			different += !vector_agrees(name, roce_icrc(packet, len),
						    roce_icrc_get(packet, len));
		}
	}
	fclose(file);
	if (!vectors)
		errx(1, "%s: no vectors", path);
	return different ? 1 : 0;
}

static void print_packet(const struct iphdr *ip, size_t max)
{
	const struct roce_bth *bth = (const void *)((const char *)(ip + 1) + sizeof(struct udphdr));
	size_t headers = (const char *)(bth + 1) - (const char *)ip;
	size_t len = ntohs(ip->tot_len);
	const char *verdict = "wrong";
	__u32 icrc;

	if (ip->ihl != 5 || len > max || len < headers + ROCE_ICRC_BYTES)
		errx(1, "a RoCEv2 packet with IP options or cut short");
	len -= ROCE_ICRC_BYTES;
	icrc = roce_icrc_get(ip, len);
	if (icrc == roce_icrc(ip, len))
		verdict = "conforming";
	else if (bth->opcode == ROCE_RC_FLUSH && icrc == roce_icrc_legacy(ip, len))
		verdict = "legacy";
	printf("0x%02x %u %s\n", bth->opcode, ntohl(bth->apsn) & ROCE_24BITS, verdict);
}

static int print_capture(const char *path)
{
	char error[PCAP_ERRBUF_SIZE], roce[64];
	struct pcap_pkthdr *header;
	struct bpf_program filter;
	const __u8 *frame;
	pcap_t *pcap;
	int got;

	pcap = pcap_open_offline(path, error);
	if (!pcap)
		errx(1, "%s: %s", path, error);
	snprintf(roce, sizeof(roce), "ip and udp dst port %u", ROCE_UDP_PORT);
	if (pcap_datalink(pcap) != DLT_EN10MB)
		errx(1, "%s: not of an Ethernet", path);
	if (pcap_compile(pcap, &filter, roce, 1, PCAP_NETMASK_UNKNOWN) || pcap_setfilter(pcap, &filter))
		errx(1, "%s: %s", path, pcap_geterr(pcap));
	while ((got = pcap_next_ex(pcap, &header, &frame)) == 1)
		print_packet((const void *)(frame + ETHER_HDR_LEN), header->caplen - ETHER_HDR_LEN);
	if (got != PCAP_ERROR_BREAK)
		errx(1, "%s: %s", path, pcap_geterr(pcap));
	pcap_freecode(&filter);
	pcap_close(pcap);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "vectors"))
		return check_vectors(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "pcap"))
		return print_capture(argv[2]);
	errx(1, "usage: icrc vectors FILE | icrc pcap FILE");
}
