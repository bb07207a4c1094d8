package shallow

import holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"

// Plan returns a copy of a plan. Its own fields may be changed; its steps, outcomes and ramps
// are shared.
func Plan(p *holdfastv1.Plan) *holdfastv1.Plan {
	return &holdfastv1.Plan{
		PlanId:      p.PlanId,
		DisplayName: p.DisplayName,
		Steps:       p.Steps,
		Params:      p.Params,
		BuiltIn:     p.BuiltIn,
		Referenced:  p.Referenced,
		CreatedAt:   p.CreatedAt,
		Brake:       p.Brake,
		Recent:      p.Recent,
		Ramps:       p.Ramps,
		MaxActive:   p.MaxActive,
		Held:        p.Held,
	}
}

// Run returns a copy of a run. Its own fields may be changed; its steps are shared.
func Run(r *holdfastv1.Run) *holdfastv1.Run {
	return &holdfastv1.Run{
		RunId:              r.RunId,
		MachineId:          r.MachineId,
		RequestId:          r.RequestId,
		Type:               r.Type,
		PlanId:             r.PlanId,
		Phase:              r.Phase,
		Steps:              r.Steps,
		CurrentStep:        r.CurrentStep,
		CreatedAt:          r.CreatedAt,
		StartedAt:          r.StartedAt,
		FinishedAt:         r.FinishedAt,
		Params:             r.Params,
		Error:              r.Error,
		Wait:               r.Wait,
		Deadline:           r.Deadline,
		NextActionAt:       r.NextActionAt,
		QueuePosition:      r.QueuePosition,
		CancelRequestedAt:  r.CancelRequestedAt,
		CancelReason:       r.CancelReason,
		MachinePhaseBefore: r.MachinePhaseBefore,
		LogBytes:           r.LogBytes,
		LogTruncated:       r.LogTruncated,
		Revision:           r.Revision,
		Principal:          r.Principal,
		LogCompacted:       r.LogCompacted,
		Observed:           r.Observed,
		Concurrent:         r.Concurrent,
		LogConcurrentBytes: r.LogConcurrentBytes,
		Archive:            r.Archive,
		Effect:             r.Effect,
		Pool:               r.Pool,
		Image:              r.Image,
	}
}

// Wait returns a copy of a wait, or an empty one of nil.
func Wait(w *holdfastv1.Wait) *holdfastv1.Wait {
	return &holdfastv1.Wait{
		Kind:     w.GetKind(),
		Subject:  w.GetSubject(),
		Value:    w.GetValue(),
		Detail:   w.GetDetail(),
		Cause:    w.GetCause(),
		Press:    w.GetPress(),
		Number:   w.GetNumber(),
		Pool:     w.GetPool(),
		Since:    w.GetSince(),
		Deadline: w.GetDeadline(),
		Sentence: w.GetSentence(),
	}
}

// Step returns a copy of a step. Its own fields may be changed; its attempts are shared.
func Step(s *holdfastv1.StepStatus) *holdfastv1.StepStatus {
	return &holdfastv1.StepStatus{
		Name:           s.Name,
		State:          s.State,
		RetryCount:     s.RetryCount,
		StartedAt:      s.StartedAt,
		FinishedAt:     s.FinishedAt,
		Message:        s.Message,
		Kind:           s.Kind,
		TimeoutSeconds: s.TimeoutSeconds,
		MaxRetries:     s.MaxRetries,
		Attempts:       s.Attempts,
	}
}

// Attempt returns a copy of an attempt. Its own fields may be changed; its epochs and its
// evidence are shared.
func Attempt(a *holdfastv1.Attempt) *holdfastv1.Attempt {
	return &holdfastv1.Attempt{
		Number:         a.Number,
		Epochs:         a.Epochs,
		StartedAt:      a.StartedAt,
		FinishedAt:     a.FinishedAt,
		Outcome:        a.Outcome,
		Error:          a.Error,
		ErrorClass:     a.ErrorClass,
		EvidenceBefore: a.EvidenceBefore,
		EvidenceAfter:  a.EvidenceAfter,
		EndsBy:         a.EndsBy,
		Deadline:       a.Deadline,
		EndingSince:    a.EndingSince,
	}
}
