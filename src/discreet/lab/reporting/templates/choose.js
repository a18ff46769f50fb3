// Shows of the maps those over the chosen columns. Without this script all stand below each other.
const box = document.querySelector(".choose");
const menu = box.querySelector("select");
const choices = document.querySelectorAll(".choice");
const show = () => choices.forEach((choice, place) => { choice.hidden = place !== menu.selectedIndex; });
menu.addEventListener("change", show);
box.hidden = false;
show();
