// Package runlog reads the blocks of run logs. It must not know how a log grows.
package runlog

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Max bounds a run's log, in bytes. A log that reaches it ends with a chunk that
// reports the truncation.
const Max = 1 << 20

// Read returns the log in blocks of a run, as RunLog does.
func Read(runID string, blocks iter.Seq[*internalv1.LogBlock], offset int64) iter.Seq[*holdfastv1.LogChunk] {
	return NewCodec().Read(runID, blocks, offset)
}

// Read returns the chunks of the log in blocks of a run from a byte offset.
func (c *Codec) Read(
	runID string, blocks iter.Seq[*internalv1.LogBlock], offset int64,
) iter.Seq[*holdfastv1.LogChunk] {
	return func(yield func(*holdfastv1.LogChunk) bool) {
		for b := range blocks {
			at := b.GetOffset()
			for _, c := range c.decode(b).GetChunks() {
				from := at
				at += int64(len(c.GetData()))
				if at <= offset {
					continue
				}
				if from < offset {
					c.Data, from = c.GetData()[offset-from:], offset
				}
				c.RunId, c.Offset = runID, from
				if !yield(c) {
					return
				}
			}
		}
	}
}

// maxPayload bounds a decompressed block: a chunk of one byte has up to a hundred bytes of
// overhead.
const maxPayload = 64 * Max

// Codec decompresses blocks.
type Codec struct{ zstd *zstd.Decoder }

// NewCodec returns a decompressor of blocks.
func NewCodec() *Codec {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPayload))
	if err != nil {
		panic(fmt.Sprintf("make zstd decoder: %v", err)) // its options are constants
	}
	return &Codec{zstd: d}
}

// open returns the chunks of a block.
func (c *Codec) open(b *internalv1.LogBlock) (*internalv1.LogChunks, error) {
	payload := b.GetPayload()
	if b.GetCodec() == internalv1.LogBlock_ZSTD {
		var err error
		if payload, err = c.zstd.DecodeAll(payload, nil); err != nil {
			return nil, err
		}
	}
	var chunks internalv1.LogChunks
	return &chunks, proto.Unmarshal(payload, &chunks)
}

// decode returns the chunks of a block. A damaged block becomes a chunk with the error.
func (c *Codec) decode(b *internalv1.LogBlock) *internalv1.LogChunks {
	chunks, err := c.open(b)
	if err != nil {
		return &internalv1.LogChunks{
			Chunks: []*holdfastv1.LogChunk{
				{Stream: "stderr", Data: fmt.Appendf(nil, "[log block at %d is damaged: %v]\n", b.GetOffset(), err)},
			},
		}
	}
	return chunks
}

// SameText reports whether two series of blocks have the same bytes of log.
func (c *Codec) SameText(a, b []*internalv1.LogBlock) bool {
	text := func(blocks []*internalv1.LogBlock) (data []byte, ok bool) {
		for _, block := range blocks {
			chunks, err := c.open(block)
			if err != nil {
				return nil, false
			}
			for _, chunk := range chunks.GetChunks() {
				data = append(data, chunk.GetData()...)
			}
		}
		return data, true
	}
	x, ok := text(a)
	y, also := text(b)
	return ok && also && bytes.Equal(x, y)
}
