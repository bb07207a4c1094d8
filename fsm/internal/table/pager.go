package table

import (
	"bytes"
	"runtime"
	"slices"
)

// pager turns the rows of a table, in order, into pages.
type pager struct {
	table *Rowset
	emit  func(*page) error

	run []row // successive rows of one page that were not emitted yet
	of  *page // their page

	rows  []row  // to be put into a new page
	raw   []byte // their bytes
	spans []span
	value []byte // of one row

	seen int
	err  error
}

// pages calls emit with the pages of a table, by key, until it returns an error. The pages
// that did not change since the last call are the same; the others are new.
func (t *Rowset) pages(emit func(*page) error) error {
	p := &pager{table: t, emit: emit}
	t.rows.Scan(p.add)
	p.interrupt()
	p.flush()
	return p.err
}

// add adds the next row, and reports whether to go on.
func (p *pager) add(r row) bool {
	if p.seen++; p.seen%yieldRows == 0 {
		runtime.Gosched()
	}
	c := r.cell.Load()
	if c == nil {
		p.interrupt()
		p.put(r)
		return p.err == nil
	}
	if p.of != c.page {
		p.interrupt()
		p.of = c.page
	}
	p.run = append(p.run, r)
	// The rows of a page are distinct, so as many in sequence are all of them.
	if len(p.run) == p.of.rows {
		p.keep(p.of)
	}
	return p.err == nil
}

// keep emits a page that did not change, unless it or what comes before it is too small.
func (p *pager) keep(whole *page) {
	if len(whole.raw) < pageLeast || len(p.raw) > 0 && len(p.raw) < pageLeast {
		p.interrupt()
		return
	}
	p.run = p.run[:0]
	p.flush()
	p.send(whole)
}

// interrupt moves the rows of a page that has changed to the next new one.
func (p *pager) interrupt() {
	for _, r := range p.run {
		p.put(r)
	}
	p.run = p.run[:0]
}

// put adds a row to the next new page.
func (p *pager) put(r row) {
	p.value = p.table.encode(p.value[:0], r)
	p.raw = appendRecord(p.raw, p.table.rules.kind, r.key, p.value)
	p.rows = append(p.rows, r)
	p.spans = append(p.spans, span{end: uint32(len(p.raw)), size: uint32(len(p.value))})
	if len(p.raw) >= pageMost {
		p.cut(max(1, slices.IndexFunc(p.spans, func(s span) bool { return s.end > pageBytes })))
	}
}

// flush emits the rows that wait as a page.
func (p *pager) flush() {
	if len(p.rows) > 0 {
		p.cut(len(p.rows))
	}
}

// cut emits the first n rows that wait as a page.
func (p *pager) cut(n int) {
	end := p.spans[n-1].end
	cells := newPage(bytes.Clone(p.raw[:end]), p.spans[:n])
	for i, r := range p.rows[:n] {
		p.table.settle(r, &cells[i])
	}
	p.send(cells[0].page)
	p.raw = append(p.raw[:0], p.raw[end:]...)
	p.rows = append(p.rows[:0], p.rows[n:]...)
	p.spans = append(p.spans[:0], p.spans[n:]...)
	for i := range p.spans {
		p.spans[i].end -= end
	}
}

func (p *pager) send(whole *page) {
	if p.err == nil {
		p.err = p.emit(whole)
	}
}
