package proxy

import (
	"maps"
	"net/http"

	"berth/shared/cluster"
	"berth/shared/wire"
)

// writeAnswer passes an answer of the API on as it is. Lambda's own errors are in no form that a
// client of ECS or EKS reads: they are put into its protocol's.
func (h *Handler) writeAnswer(w http.ResponseWriter, r *http.Request, got *answer) {
	if got.status >= http.StatusBadRequest && !h.isFromBerth(got) {
		code, message := h.target.ExplainLambda(got.status, got.header, got.body)
		wire.WriteRefusal(w, r, cluster.Errorf(cluster.Code(code), "%s", message))
		return
	}
	removeConnectionHeaders(got.header)
	maps.Copy(w.Header(), got.header)
	w.WriteHeader(got.status)
	_, _ = w.Write(got.body) // a client who has gone does not matter
}
