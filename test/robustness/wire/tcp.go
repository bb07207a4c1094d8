package wire

import "encoding/binary"

const (
	protocolTCP = 6
	flagSYN     = 0x02
	flagRST     = 0x04
	flagACK     = 0x10
	ipHeader    = 20 // bytes, without options
	tcpHeader   = 20
)

// tcpOf returns the TCP part of an IPv4 packet; nil if it has none.
func tcpOf(p []byte) []byte {
	if len(p) < ipHeader || p[9] != protocolTCP {
		return nil
	}
	if n := int(p[0]&0xf) * 4; len(p) >= n+tcpHeader {
		return p[n:]
	}
	return nil
}

// isSYN reports whether an IPv4 packet opens a new TCP connection.
func isSYN(p []byte) bool {
	t := tcpOf(p)
	return t != nil && t[13]&(flagSYN|flagACK) == flagSYN
}

// reset returns the packet that refuses the connection of a SYN.
func reset(syn []byte) []byte {
	t := tcpOf(syn)
	p := make([]byte, ipHeader+tcpHeader)
	p[0], p[8], p[9] = 4<<4|ipHeader/4, 64, protocolTCP
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	copy(p[12:16], syn[16:20])
	copy(p[16:20], syn[12:16])
	binary.BigEndian.PutUint16(p[10:], checksum(0, p[:ipHeader]))
	r := p[ipHeader:]
	copy(r[0:2], t[2:4])
	copy(r[2:4], t[0:2])
	binary.BigEndian.PutUint32(r[8:], binary.BigEndian.Uint32(t[4:])+1)
	r[12], r[13] = tcpHeader/4<<4, flagRST|flagACK
	binary.BigEndian.PutUint16(r[16:], checksum(sum(protocolTCP+tcpHeader, p[12:20]), r))
	return p
}

// checksum returns the Internet checksum of data of even length, starting with a sum.
func checksum(begin uint32, data []byte) uint16 {
	s := sum(begin, data)
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return ^uint16(s)
}

func sum(begin uint32, data []byte) uint32 {
	for i := 0; i+1 < len(data); i += 2 {
		begin += uint32(binary.BigEndian.Uint16(data[i:]))
	}
	return begin
}
