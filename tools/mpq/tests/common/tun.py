"""A VPN without encryption: what is sent into a tun device goes to the other end in UDP datagrams.

usage: tun.py DEVICE LOCAL-ADDRESS PORT REMOTE-ADDRESS

Says "up" once the device is there, and ends with its standard input."""
import fcntl
import os
import select
import socket
import struct
import sys

TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000


def main() -> None:
    device, local, port, remote = sys.argv[1:]
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", device.encode(), IFF_TUN | IFF_NO_PI))
    outer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    outer.bind((local, int(port)))
    peer = (remote, int(port))
    print("up", flush=True)
    while True:
        ready, _, _ = select.select([tun, outer, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        if tun in ready:
            packet = os.read(tun, 65535)
            try:
                outer.sendto(packet, peer)
            except OSError:
                pass    # no way there now: a network loses it
        if outer in ready:
            packet = outer.recv(65535)
            try:
                os.write(tun, packet)
            except OSError:
                pass    # the device is down


main()
