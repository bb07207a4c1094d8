package sshexec

// Connections returns the number of open connections.
func (p *Provider) Connections() int {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	return len(p.pool.open)
}
