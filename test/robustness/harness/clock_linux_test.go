package harness

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// clockVar makes the test binary a process that prints its time.
const clockVar = "HOLDFAST_TEST_CLOCK"

func TestMain(m *testing.M) {
	if os.Getenv(clockVar) != "" {
		serveTime()
	}
	os.Exit(m.Run())
}

// serveTime answers each line with the wall clock and the process's age, while all its threads read
// clocks.
func serveTime() {
	began := time.Now()
	for range 2 * runtime.NumCPU() {
		go func() {
			for time.Since(began) >= 0 {
				runtime.Gosched()
			}
			panic("time went back")
		}()
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		now := time.Now()
		fmt.Println(now.UnixNano(), int64(now.Sub(began)))
	}
	os.Exit(0)
}

type child struct {
	*exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func (c child) PID() int      { return c.Process.Pid }
func (c child) Running() bool { return true }
func (c child) Pause() error  { return c.Process.Signal(syscall.SIGSTOP) }
func (c child) Resume() error { return c.Process.Signal(syscall.SIGCONT) }

// answer is an answer of the child, with the times around it.
type answer struct {
	wall       time.Time
	lived      time.Duration // by the child's clock
	asked, got time.Time
}

func (c child) answer(t *testing.T) answer {
	t.Helper()
	a := answer{asked: time.Now()}
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		t.Fatal(err)
	}
	var wall int64
	line, err := c.out.ReadString('\n')
	if err == nil {
		_, err = fmt.Sscan(line, &wall, &a.lived)
	}
	if err != nil {
		t.Fatalf("read the answer of the child %q: %v", line, err)
	}
	a.wall, a.got = time.Unix(0, wall), time.Now()
	return a
}

// TestClock sets the wall clock of a process forward, back and in steps while the process reads it.
// Its durations must not change.
func TestClock(t *testing.T) {
	if m := ClocksMissing(); m != "" {
		t.Skip(m)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), clockVar+"=1"), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := child{cmd, in, bufio.NewReader(out)}
	defer func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	first := c.answer(t)
	check := func(want time.Duration) {
		t.Helper()
		const slack = time.Second // two clocks cannot be read at once; does not include the time to answer
		a := c.answer(t)
		if least, most := a.wall.Sub(a.got), a.wall.Sub(a.asked); want < least-slack || want > most+slack {
			t.Errorf("offset of the child's clock: got %s to %s, want %s", least, most, want)
		}
		least, most := first.lived+a.asked.Sub(first.got), first.lived+a.got.Sub(first.asked)
		if a.lived < least-slack || a.lived > most+slack {
			t.Errorf("age of the child: got %s, want %s to %s", a.lived, least, most)
		}
	}
	check(0)
	for range 20 {
		for _, off := range []time.Duration{time.Hour, -time.Hour, -30*time.Second - 5} {
			clock, err := SetClock(t.Context(), c, off)
			if err != nil {
				t.Fatal(err)
			}
			check(off)
			if err := clock.Move(-off); err != nil {
				t.Fatal(err)
			}
			check(-off)
			if err := clock.Restore(t.Context()); err != nil {
				t.Fatal(err)
			}
			check(0)
		}
	}
}

// TestWallClockCode disassembles the code and compares it with its comments.
func TestWallClockCode(t *testing.T) {
	objdump, err := exec.LookPath("objdump")
	if err != nil || runtime.GOARCH != "amd64" {
		t.Skip("needs objdump and amd64")
	}
	name := t.TempDir() + "/code"
	if err := os.WriteFile(name, wallClock, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := exec.Command(objdump, "-D", "-b", "binary", "-m", "i386:x86-64", "-M", "intel", "--no-show-raw-insn",
		name).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mov    eax,0xe4", "test   edi,edi", "jne    0x33",
		"imul   rcx,QWORD PTR [rsi],0x3b9aca00", "add    rcx,QWORD PTR [rsi+0x8]",
		"add    rcx,QWORD PTR [rip+0x1b]        # 0x38", "cqo", "idiv   rcx", "mov    QWORD PTR [rsi],rax",
		"mov    QWORD PTR [rsi+0x8],rdx", "33:\tret"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("got no %q in:\n%s", want, b)
		}
	}
	if len(wallClock) != 0x38 {
		t.Errorf("position of the offset: got %#x, want 0x38", len(wallClock))
	}
}
