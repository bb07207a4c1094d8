package chassis

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// qmp is a connection to a QEMU (QEMU Machine Protocol).
type qmp struct {
	mu   sync.Mutex // one command at a time
	conn net.Conn
	dec  *json.Decoder
}

// qmpTime bounds one command.
const qmpTime = 10 * time.Second

// meet performs the handshake with a QEMU that has connected.
func meet(conn net.Conn) (*qmp, error) {
	q := &qmp{conn: conn, dec: json.NewDecoder(conn)}
	if err := conn.SetDeadline(time.Now().Add(qmpTime)); err != nil {
		return nil, err
	}
	var greeting struct {
		QMP json.RawMessage `json:"QMP"`
	}
	if err := q.dec.Decode(&greeting); err != nil {
		return nil, fmt.Errorf("meet QEMU: %w", err)
	}
	if greeting.QMP == nil {
		return nil, errors.New("meet QEMU: no greeting")
	}
	return q, q.do("qmp_capabilities", nil)
}

// do runs a command, and drops events that arrive before its response.
func (q *qmp) do(command string, args map[string]any) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.conn.SetDeadline(time.Now().Add(qmpTime)); err != nil {
		return err
	}
	msg := map[string]any{"execute": command}
	if args != nil {
		msg["arguments"] = args
	}
	if err := json.NewEncoder(q.conn).Encode(msg); err != nil {
		return fmt.Errorf("tell QEMU %s: %w", command, err)
	}
	for {
		var answer struct {
			Return json.RawMessage `json:"return"`
			Error  *struct {
				Desc string `json:"desc"`
			} `json:"error"`
		}
		if err := q.dec.Decode(&answer); err != nil {
			return fmt.Errorf("tell QEMU %s: %w", command, err)
		}
		switch {
		case answer.Error != nil:
			return fmt.Errorf("tell QEMU %s: %s", command, answer.Error.Desc)
		case answer.Return != nil:
			return nil
		}
	}
}
