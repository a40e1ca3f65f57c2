package placement

import "berth/shared/placement/domain"

// Domains are the fault and upgrade domains of the request's service as they are now, with its
// tasks; nil where no domain policy governs it. The caller may ask and leaves them as they are;
// they hold until the snapshot changes.
func (e *Engine) Domains(r Request) *domain.Domains {
	e.sync()
	return classFor(e, &r, relaxed(&e.snap.Configuration.Priorities, 0)).domains
}
