package wire

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"time"

	"berth/shared/wire/awsjson"
	"berth/shared/wire/berthapi"
	"berth/shared/wire/ecsapi"
	"berth/shared/wire/eksapi"
	"berth/shared/wire/transport"
)

// ServerOptions are what the API server needs.
type ServerOptions struct {
	ecsapi.Options
	Own berthapi.Resources
	// NodeGroups answers the EKS API on the same endpoint. If it is nil, that API is not served.
	NodeGroups eksapi.NodeGroups
	// Loopback refuses HTTP requests that a web page could have sent, see
	// [transport.CheckLoopback].
	Loopback bool
	// Bounded bounds how many operations run at once. A Lambda function answers one at a time.
	Bounded bool
	// Audit gets a line for each change and each refusal; nil stands for Logger.
	Audit *slog.Logger
}

// What a bounded server runs at once. A page of rows, which is the largest answer, needs some
// megabytes while it is written. RunTask waits up to five seconds for placement, so there may be
// more changes.
const (
	maxReads, maxChanges = 32, 256
	maxWaiting           = 512
	maxWait              = 2 * time.Second
)

// A Server is Berth's API: the ECS API and Berth's own operations at /, the EKS API on
// every other path. No request of the ECS API has a path, so the two never meet.
type Server struct {
	ecs *awsjson.Mux
	eks *eksapi.Handler
}

// NewServer returns a server for the options.
func NewServer(o ServerOptions) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{}
	guard := transport.Guard{Loopback: o.Loopback, Access: o.Access, Audit: cmp.Or(o.Audit, o.Logger), Log: o.Logger}
	if o.Bounded {
		guard.Reads, guard.Changes = transport.NewLimit(maxReads, maxWaiting, maxWait),
			transport.NewLimit(maxChanges, maxWaiting, maxWait)
	}
	var plans berthapi.UpdatePlans
	if o.NodeGroups != nil {
		s.eks, plans = eksapi.NewHandler(o.Account, o.NodeGroups, guard), o.NodeGroups
	}
	operations := ecsapi.Operations(o.Options)
	maps.Copy(operations, berthapi.Operations(o.Account, o.Own, plans))
	s.ecs = awsjson.NewMux(operations)
	s.ecs.Guard = guard
	return s
}

// ServeOperation answers one operation of the ECS API without HTTP, see
// [awsjson.Mux.ServeOperation].
func (s *Server) ServeOperation(ctx context.Context, op string, body []byte) (status int, answer []byte) {
	return s.ecs.ServeOperation(ctx, op, body)
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.eks != nil && r.URL.Path != "/" {
		s.eks.ServeHTTP(w, r)
		return
	}
	s.ecs.ServeHTTP(w, r)
}
