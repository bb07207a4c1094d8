package providertest_test

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

type (
	pressesTwice      struct{ *fake.Provider }
	neverPresses      struct{ *fake.Provider }
	takesAnyAction    struct{ *fake.Provider }
	inspectPresses    struct{ *fake.Provider }
	healthPresses     struct{ *fake.Provider }
	alwaysHealthy     struct{ *fake.Provider }
	forgetsPersistent struct{ *fake.Provider }
	neverEjects       struct{ *fake.Provider }
	runsTwice         struct{ *fake.Provider }
	neverKills        struct{ *fake.Provider }
	noTimeout         struct{ *fake.Provider }
	neverConfirms     struct{ *fake.Provider }
	neverRollsBack    struct{ *fake.Provider }
	plainErrors       struct{ *fake.Provider }
	timeoutsTransient struct{ *fake.Provider }
	ignoresContext    struct{ *fake.Provider }
	ignoresNotAfter   struct{ *fake.Provider }
	alwaysTooLate     struct{ *fake.Provider }
)

func (p pressesTwice) SetPower(
	ctx context.Context, op providers.Op, m providers.Machine, a providers.PowerAction,
) error {
	return errors.Join(p.Provider.SetPower(ctx, op, m, a), p.Provider.SetPower(ctx, op, m, a))
}

func (p neverPresses) SetPower(context.Context, providers.Op, providers.Machine, providers.PowerAction) error {
	return nil
}

func (p takesAnyAction) SetPower(
	ctx context.Context, op providers.Op, m providers.Machine, a providers.PowerAction,
) error {
	if a == "cycle" {
		return nil
	}
	return p.Provider.SetPower(ctx, op, m, a)
}

func (p healthPresses) Health(ctx context.Context, m providers.Machine) (providers.Health, error) {
	if err := p.SetPower(ctx, providers.Op{}, m, providers.ActionOn); err != nil {
		return providers.Health{}, err
	}
	return p.Provider.Health(ctx, m)
}

func (alwaysHealthy) Health(context.Context, providers.Machine) (providers.Health, error) {
	return providers.Health{}, nil
}

func (p inspectPresses) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	if err := p.SetPower(ctx, providers.Op{}, m, providers.ActionOn); err != nil {
		return providers.Facts{}, err
	}
	return p.Provider.Inspect(ctx, m)
}

func (p forgetsPersistent) SetBootDevice(
	ctx context.Context, op providers.Op, m providers.Machine, d providers.BootDevice,
) error {
	d.Persistent = false
	return p.Provider.SetBootDevice(ctx, op, m, d)
}

func (p neverEjects) EjectMedia(context.Context, providers.Op, providers.Machine) error { return nil }

// installsAnew uses a new token for every start.
type installsAnew struct {
	*fake.Provider
	starts int32
}

func (p *installsAnew) StartInstall(
	ctx context.Context, op providers.Op, m providers.Machine, s providers.InstallSpec,
) error {
	p.starts++
	if p.starts == 1 {
		return p.Provider.StartInstall(ctx, op, m, s)
	}
	op.Attempt += 1000 * p.starts
	return p.Provider.StartInstall(ctx, op, m, s)
}

func (p runsTwice) StartCommand(
	ctx context.Context, op providers.Op, m providers.Machine, token string, c providers.Command,
) error {
	return errors.Join(p.Provider.StartCommand(ctx, op, m, token, c),
		p.Provider.StartCommand(ctx, op, m, token+"again", c))
}

func (p neverKills) KillCommand(context.Context, providers.Op, providers.Machine, string) error {
	return nil
}

func (p noTimeout) StartCommand(
	ctx context.Context, op providers.Op, m providers.Machine, token string, c providers.Command,
) error {
	c.Timeout = 0
	return p.Provider.StartCommand(ctx, op, m, token, c)
}

// wrongStatus changes the reported status of a command.
type wrongStatus struct {
	*fake.Provider
	change func(*providers.CommandStatus)
}

func (p wrongStatus) CommandStatus(
	ctx context.Context, m providers.Machine, token string, offset int64,
) (providers.CommandStatus, error) {
	s, err := p.Provider.CommandStatus(ctx, m, token, offset)
	p.change(&s)
	return s, err
}

func status(change func(*providers.CommandStatus)) func(*fake.Provider) providers.Provider {
	return func(p *fake.Provider) providers.Provider { return wrongStatus{p, change} }
}

func mixStreams(s *providers.CommandStatus) {
	for i := range s.Output {
		s.Output[i].Stream = "stdout"
	}
}

func outputAtTheEnd(s *providers.CommandStatus) {
	if s.State == providers.WorkRunning {
		for _, o := range s.Output {
			s.Next -= int64(len(o.Data))
		}
		s.Output = nil
	}
}

// joinsAnew uses a new token for every start after the first.
type joinsAnew struct {
	*fake.Provider
	starts int32
}

func (p *joinsAnew) StartJoin(ctx context.Context, op providers.Op, m providers.Machine, s providers.JoinSpec) error {
	p.starts++
	if p.starts > 1 {
		op.Attempt += 1000 * p.starts
	}
	return p.Provider.StartJoin(ctx, op, m, s)
}

func (p neverConfirms) ConfirmNetwork(context.Context, providers.Op, providers.Machine, string) error {
	return nil
}

func (p neverRollsBack) ApplyNetwork(
	ctx context.Context, op providers.Op, m providers.Machine, config string, _ time.Duration,
) error {
	return p.Provider.ApplyNetwork(ctx, op, m, config, time.Hour)
}

func (p plainErrors) PowerState(ctx context.Context, m providers.Machine) (providers.PowerState, error) {
	s, err := p.Provider.PowerState(ctx, m)
	if err != nil {
		err = errors.New(err.Error())
	}
	return s, err
}

func (p timeoutsTransient) PowerState(ctx context.Context, m providers.Machine) (providers.PowerState, error) {
	s, err := p.Provider.PowerState(ctx, m)
	if err != nil {
		err = providers.Errorf(providers.Transient, "read power", "%w", err)
	}
	return s, err
}

func (p ignoresContext) PowerState(ctx context.Context, m providers.Machine) (providers.PowerState, error) {
	return p.Provider.PowerState(context.WithoutCancel(ctx), m)
}

func (p ignoresNotAfter) SetBootDevice(
	ctx context.Context, op providers.Op, m providers.Machine, d providers.BootDevice,
) error {
	return p.Provider.SetBootDevice(providers.WithNotAfter(ctx, time.Now().Add(time.Hour)), op, m, d)
}

func (p alwaysTooLate) SetPower(context.Context, providers.Op, providers.Machine, providers.PowerAction) error {
	return providers.Errorf(providers.Late, "press", "not now")
}
