package comparison

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/stoatdb/stoat/bench/internal/workload"
)

// A Progress shows the progress of a run: as a bar on a terminal, otherwise as
// one line per job.
type Progress struct {
	out      io.Writer
	terminal bool
	began    time.Time

	steps       int
	number      int
	total, done float64 // weights
	earlier     float64 // the part of done that an earlier run measured
}

// NewProgress writes to out.
func NewProgress(out *os.File) *Progress {
	info, err := out.Stat()
	return &Progress{out: out, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// say writes a line about work before the first step.
func (p *Progress) say(text string) {
	if p.terminal {
		text = "\r\x1b[K" + text
	} else {
		text += "\n"
	}
	fmt.Fprint(p.out, text)
}

func (p *Progress) begin(steps []Step) {
	p.began, p.steps = time.Now(), len(steps)
	for _, s := range steps {
		p.total += weight(s)
	}
}

// weight returns the expected time of a step, relative to other steps.
func weight(s Step) float64 {
	switch {
	case s.Info.Open == nil, needless(s) != "":
		return 0.01
	case s.Limited() && s.Workload.Fresh:
		return 55 * max(slowUnderLimit[s.Info.Name], 1)
	case s.Workload.Name == "churn":
		return 70
	case s.Workload.Rare:
		return 150
	case s.Workload.Heavy:
		return 30
	case s.Workload.Name == "get":
		return 50
	case s.Workload.Name == "scan", s.Workload.Name == "seek", s.Workload.Name == "commit", s.Workload.Name == "queue":
		return 20
	}
	return 4
}

func (p *Progress) skip(s Step) {
	p.number++
	p.done += weight(s)
	p.earlier += weight(s)
}

func (p *Progress) start(s Step) {
	p.number++
	if !p.terminal {
		return
	}
	const width = 28
	full := int(width * p.done / p.total)
	fmt.Fprintf(p.out, "\r\x1b[K[%s%s] %3.0f %%  %d/%d%s  %s %s %s",
		strings.Repeat("█", full), strings.Repeat("·", width-full), 100*p.done/p.total,
		p.number, p.steps, p.remaining(), s.Job.Store, s.Job.Workload, s.Job.Data)
}

// remaining estimates the time to the end. It is empty before the first
// measurement.
func (p *Progress) remaining() string {
	measured := p.done - p.earlier
	if measured <= 0 {
		return ""
	}
	left := time.Duration(float64(time.Since(p.began)) / measured * (p.total - p.done))
	return fmt.Sprintf("  %v left", left.Round(time.Second))
}

func (p *Progress) finish(s Step, r workload.Result) {
	p.done += weight(s)
	text := fmt.Sprintf("%s %s %s: %s", s.Job.Store, s.Job.Workload, s.Job.Data, r.Status)
	if r.Detail != "" {
		detail, _, _ := strings.Cut(r.Detail, "\n")
		text += ": " + detail
	}
	switch {
	case !p.terminal:
		fmt.Fprintf(p.out, "[%d/%d] %s (%.1f s)\n", p.number, p.steps, text, r.Seconds)
	case r.Status == workload.Wrong, r.Status == workload.Failed, r.Status == workload.TimedOut, r.Status == workload.Killed:
		fmt.Fprintf(p.out, "\r\x1b[K%s\n", text)
	}
}

// Done ends the bar.
func (p *Progress) Done() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
