/* Programs that the virtual machine needs and busybox lacks:
 *
 *   helper echo PORT      answers TCP connections of IPv4 and IPv6 with what they send
 *   helper encap PORT     holds a UDP port whose ESP the kernel takes (RFC 3948), of IPv4 and of IPv6
 */
#include <arpa/inet.h>
#include <linux/udp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int bound(int family, int type, int port)
{
    int one = 1, fd = socket(family, type, 0);
    if (fd < 0)
        fail("socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (family == AF_INET6) {
        struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
        if (bind(fd, (struct sockaddr *)&any, sizeof any))
            fail("bind");
    } else {
        struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
        if (bind(fd, (struct sockaddr *)&any, sizeof any))
            fail("bind");
    }
    return fd;
}

static void echo(int family, int port)
{
    int listener = bound(family, SOCK_STREAM, port);
    static char octets[1 << 16];
    if (listen(listener, 16))
        fail("listen");
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            continue;
        if (fork() == 0) {
            ssize_t got;
            while ((got = read(fd, octets, sizeof octets)) > 0)
                for (ssize_t put = 0, done; put < got; put += done)
                    if ((done = write(fd, octets + put, got - put)) < 0)
                        exit(1);
            exit(0);
        }
        close(fd);
    }
}

static void encap(int family, int port)
{
    int kind = UDP_ENCAP_ESPINUDP, fd = bound(family, SOCK_DGRAM, port);
    if (setsockopt(fd, IPPROTO_UDP, UDP_ENCAP, &kind, sizeof kind))
        fail("UDP_ENCAP");
    for (;;)
        pause();
}

int main(int count, char **words)
{
    if (count != 3) {
        fprintf(stderr, "usage: helper echo|encap PORT\n");
        return 2;
    }
    signal(SIGCHLD, SIG_IGN);
    int family = fork() == 0 ? AF_INET6 : AF_INET;
    if (strcmp(words[1], "echo") == 0)
        echo(family, atoi(words[2]));
    else
        encap(family, atoi(words[2]));
    return 0;
}
