"use strict";
// Puts the changing part of the page in place of the old one every two seconds. It comes as HTML, escaped by the server.
(() => {
  const now = document.getElementById("now");
  const stale = document.getElementById("stale");
  let last = new Date();
  const head = () => {
    const verdict = now.querySelector("[data-host]");
    if (verdict) document.title = `${verdict.dataset.alarms > 0 ? "(!) " : ""}${verdict.dataset.host} - Meridian`;
  };
  const isReading = () => {
    const selection = getSelection();
    return selection && !selection.isCollapsed && now.contains(selection.anchorNode);
  };
  const renew = async () => {
    // Nobody looks, or somebody is about to copy something.
    if (document.hidden || isReading()) return;
    try {
      const answer = await fetch("now", { cache: "no-store", signal: AbortSignal.timeout(10000) });
      if (!answer.ok) throw new Error(await answer.text());
      now.innerHTML = await answer.text();
      last = new Date();
      stale.hidden = true;
      head();
    } catch (error) {
      stale.textContent = `The server does not answer. This is how it was at ${last.toLocaleTimeString()}.`;
      stale.hidden = false;
    }
  };
  const go = async () => {
    await renew();
    setTimeout(go, 2000);
  };
  document.addEventListener("visibilitychange", renew);
  head();
  setTimeout(go, 2000);
})();
