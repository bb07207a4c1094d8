package machineapi

import (
	"encoding/json"
	"strconv"
	"strings"
)

// This file decodes keepalives in the form that nearly all agents send. Keepalives are
// nearly all of the requests, and encoding/json takes longer for one than the rest of its
// handler. The form is: known members by their exact names, ASCII texts without escapes,
// and numbers without exponents. All other input, including errors, is left to
// encoding/json.

// ReadQuick implements httpjson.Quick.
func (k *keepalive) ReadQuick(b []byte) bool {
	s := scanner{b: b}
	if s.object(func(name []byte) bool { return k.member(&s, name) }) && s.end() {
		return true
	}
	*k = keepalive{}
	return false
}

func (k *keepalive) member(s *scanner, name []byte) bool {
	switch string(name) {
	case "machine_id":
		return s.text(&k.MachineID)
	case "provider_name":
		return s.text(&k.ProviderName)
	case "pool_name":
		return s.text(&k.PoolName)
	case "agent_version":
		return s.text(&k.AgentVersion)
	case "metrics":
		if k.Metrics == nil {
			k.Metrics = &metrics{}
		}
		return s.object(func(name []byte) bool { return k.Metrics.member(s, name) })
	}
	return false
}

func (m *metrics) member(s *scanner, name []byte) bool {
	switch string(name) {
	case "cpu_utilization_pct":
		return s.number(&m.CPUUtilization)
	case "memory_utilization_pct":
		return s.number(&m.MemoryUtilization)
	case "total_cpu_available":
		return s.number(&m.TotalCPU)
	case "total_memory_available":
		return s.number(&m.TotalMemory)
	case "free_gpu_count":
		return s.number(&m.FreeGPUs)
	}
	return false
}

// scanner reads plain JSON. Each method reports whether it found the expected value.
type scanner struct {
	b  []byte
	at int
}

// take skips space and consumes the character c.
func (s *scanner) take(c byte) bool {
	s.space()
	if s.at == len(s.b) || s.b[s.at] != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) space() {
	for s.at < len(s.b) && (s.b[s.at] == ' ' || s.b[s.at] == '\n' || s.b[s.at] == '\r' || s.b[s.at] == '\t') {
		s.at++
	}
}

// end reports whether only space follows.
func (s *scanner) end() bool {
	s.space()
	return s.at == len(s.b)
}

// object reads an object and calls member for each of its members.
func (s *scanner) object(member func(name []byte) bool) bool {
	if !s.take('{') {
		return false
	}
	if s.take('}') {
		return true
	}
	for {
		name, ok := s.quoted()
		if !ok || !s.take(':') || !member(name) {
			return false
		}
		if s.take('}') {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
}

// quoted reads a string of ASCII without escapes.
func (s *scanner) quoted() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	for i, c := range s.b[s.at:] {
		switch {
		case c == '"':
			found := s.b[s.at : s.at+i]
			s.at += i + 1
			return found, true
		case !literal(c):
			return nil, false
		}
	}
	return nil, false
}

// literal reports whether a character needs no escape in a string.
func literal(c byte) bool { return c >= ' ' && c <= '~' && c != '\\' && c != '"' }

func (s *scanner) text(into *text) bool {
	b, ok := s.quoted()
	*into = text(strings.TrimSpace(string(b)))
	return ok
}

func (s *scanner) number(into *number) bool {
	s.space()
	begin := s.at
	if s.at < len(s.b) && s.b[s.at] == '-' {
		s.at++
	}
	if first := s.at; s.digits() == 0 || s.b[first] == '0' && s.at > first+1 {
		return false
	}
	if s.at < len(s.b) && s.b[s.at] == '.' {
		s.at++
		if s.digits() == 0 {
			return false
		}
	}
	// An exponent is not consumed; its "e" then fails the next step.
	f, err := strconv.ParseFloat(string(s.b[begin:s.at]), 64)
	*into = number(f)
	return err == nil && f <= maxNumber && f >= -maxNumber
}

// digits skips digits and returns their number.
func (s *scanner) digits() (n int) {
	for s.at < len(s.b) && s.b[s.at] >= '0' && s.b[s.at] <= '9' {
		s.at, n = s.at+1, n+1
	}
	return n
}

// AppendJSON implements httpjson.Appender.
func (a *alive) AppendJSON(b []byte) []byte {
	b = appendText(append(b, `{"status":`...), a.Status)
	m := &a.MachineState
	b = appendText(append(b, `,"machine_state":{"machine_id":`...), m.MachineID)
	b = appendText(append(b, `,"status":`...), m.Status)
	b = appendText(append(b, `,"pool_name":`...), m.PoolName)
	if m.LastKeepalive != "" {
		b = appendText(append(b, `,"last_keepalive":`...), m.LastKeepalive)
	}
	b = strconv.AppendInt(append(b, `,"ttl_seconds":`...), m.TTLSeconds, 10)
	if m.AgentVersion != "" {
		b = appendText(append(b, `,"agent_version":`...), m.AgentVersion)
	}
	b = append(b, '}')
	if a.NextKeepaliveMS != 0 {
		b = strconv.AppendInt(append(b, `,"next_keepalive_ms":`...), a.NextKeepaliveMS, 10)
	}
	return append(b, '}')
}

// appendText appends a JSON string as encoding/json does, including its escapes for HTML.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; !literal(c) || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // never fails for a string
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
