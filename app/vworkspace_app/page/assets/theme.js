"use strict";
// Before anything is painted: the choice that was made here before.
try {
  const chosen = localStorage.getItem("vworkspace-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch { /* no storage: as the system says */ }
