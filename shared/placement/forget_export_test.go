package placement

// Forgetful has the engine give up the older half of what it keeps whenever it makes more.
func (e *Engine) Forgetful() { e.maxMemory, e.evictEvery = 0, 1 }
