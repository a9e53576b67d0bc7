// SPDX-License-Identifier: GPL-2.0
/*
 * bursts ADDRESS PORT COUNT PERIOD
 *
 * Sends COUNT (at most 64) small UDP packets at once, each PERIOD us, until the program is killed.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define PACKETS_MAX 64

static void add_us(struct timespec *time, long us)
{
	time->tv_nsec += us * 1000;
	time->tv_sec += time->tv_nsec / 1000000000;
	time->tv_nsec %= 1000000000;
}

int main(int argc, char **argv)
{
	static char data[16];
	struct iovec part = {data, sizeof(data)};
	struct mmsghdr packets[PACKETS_MAX];
	struct sockaddr_in address = {.sin_family = AF_INET};
	struct timespec next;
	int count, index, sender;
	long period;

	if (argc != 5 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1)
		return 2;
	address.sin_port = htons(atoi(argv[2]));
	count = atoi(argv[3]);
	period = atol(argv[4]);
	if (count < 1 || count > PACKETS_MAX || period < 1 || period > 1000000)
		return 2;
	sender = socket(AF_INET, SOCK_DGRAM, 0);
	/* The address may be a broadcast address. */
	if (sender < 0 || setsockopt(sender, SOL_SOCKET, SO_BROADCAST, &(int){1}, sizeof(int)) ||
	    connect(sender, (struct sockaddr *)&address, sizeof(address)))
		return 1;
	memset(packets, 0, sizeof(packets));
	for (index = 0; index < count; index++) {
		packets[index].msg_hdr.msg_iov = &part;
		packets[index].msg_hdr.msg_iovlen = 1;
	}
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (;;) {
		/* Ignore errors: full queues drop packets, and the far end may refuse them. */
		sendmmsg(sender, packets, count, 0);
		add_us(&next, period);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
}
