package placement

import "berth/shared/placement/domain"

// ServiceDomains are the fault and upgrade domains of the request's service as they are now, with its
// tasks; nil where no domain policy governs it. The caller may ask and leaves them as they are;
// they hold until the snapshot changes.
func (e *Engine) ServiceDomains(r Request) *domain.Domains {
	e.sync()
	return chooserFor(e, &r, relaxationAt(&e.snap.Configuration.Priorities, 0)).domains
}
