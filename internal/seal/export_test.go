package seal

// DataKeys returns how many data keys there are.
func (k *Keys) DataKeys() int { return len(k.now().keys) }
